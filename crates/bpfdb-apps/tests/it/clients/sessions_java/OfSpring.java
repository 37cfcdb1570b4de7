import java.util.Map;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.RedisTemplate;
import org.springframework.data.redis.serializer.RedisSerializer;
import org.springframework.session.FindByIndexNameSessionRepository;
import org.springframework.session.Session;
import org.springframework.session.SessionRepository;
import org.springframework.session.data.redis.RedisIndexedSessionRepository;
import org.springframework.session.data.redis.RedisSessionRepository;

/** Sessions of Spring in database 12: plain ones, and those that are found by a user's name. */
final class OfSpring {
  private static final int DATABASE = 12;
  private static final String USER = FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME;

  private OfSpring() {}

  static void run(int port) {
    RedisStandaloneConfiguration where = new RedisStandaloneConfiguration("127.0.0.1", port);
    where.setDatabase(DATABASE);
    LettuceConnectionFactory connections = new LettuceConnectionFactory(where);
    connections.afterPropertiesSet();
    connections.start();
    RedisTemplate<String, Object> template = new RedisTemplate<>();
    template.setConnectionFactory(connections);
    template.setKeySerializer(RedisSerializer.string());
    template.setHashKeySerializer(RedisSerializer.string());
    template.afterPropertiesSet();
    use(new RedisSessionRepository(template));
    indexed(new RedisIndexedSessionRepository(template));
    connections.destroy();
  }

  private static void indexed(RedisIndexedSessionRepository sessions) {
    sessions.setDatabase(DATABASE);
    sessions.afterPropertiesSet();
    use(sessions);
    Map<String, ? extends Session> found = sessions.findByPrincipalName("a user");
    Check.same(found.size(), 1);
    sessions.deleteById(found.keySet().iterator().next());
    Check.same(sessions.findByPrincipalName("a user").size(), 0);
    sessions.cleanUpExpiredSessions();
    sessions.destroy();
  }

  private static <S extends Session> void use(SessionRepository<S> sessions) {
    S made = sessions.createSession();
    made.setAttribute("step", "1");
    made.setAttribute(USER, "a user");
    sessions.save(made);
    S found = sessions.findById(made.getId());
    Check.same(found.getAttribute("step"), "1");
    found.setAttribute("step", "2");
    found.changeSessionId();
    sessions.save(found);
    Check.same(sessions.findById(made.getId()), null);
    Check.same(sessions.findById(found.getId()).getAttribute("step"), "2");
    S gone = sessions.createSession();
    sessions.save(gone);
    sessions.deleteById(gone.getId());
    Check.same(sessions.findById(gone.getId()), null);
  }
}
