import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** A pool of connections: more threads than connections, and transactions on one row. */
final class OfHikari {
  private static final int CONNECTIONS = 4;
  private static final int THREADS = 8;
  private static final int ROUNDS = 30;
  private static final long PATIENCE = 60;

  private OfHikari() {}

  static void run(String url, String table) throws Exception {
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(url + "&prepareThreshold=2");
    config.setMaximumPoolSize(CONNECTIONS);
    ExecutorService threads = Executors.newFixedThreadPool(THREADS);
    try (HikariDataSource pool = new HikariDataSource(config);
        Connection connection = pool.getConnection()) {
      Check.execute(connection, "drop table if exists " + table);
      Check.execute(connection, "create table " + table + " as select 0 as seen");
      List<Future<?>> all = new ArrayList<>();
      for (int thread = 0; thread < THREADS; thread++) {
        all.add(threads.submit(() -> work(pool, table)));
      }
      for (Future<?> one : all) {
        one.get(PATIENCE, TimeUnit.SECONDS);
      }
      Check.same(Check.value(connection, "select seen from " + table), "" + THREADS * ROUNDS);
      Check.execute(connection, "drop table " + table);
    }
    threads.shutdown();
  }

  private static Void work(HikariDataSource pool, String table) throws SQLException {
    String select = "select seen + ? from " + table + " for update";
    String update = "update " + table + " set seen = ?";
    for (int round = 0; round < ROUNDS; round++) {
      try (Connection connection = pool.getConnection()) {
        connection.setAutoCommit(false);
        try (PreparedStatement next = connection.prepareStatement(select);
            PreparedStatement set = connection.prepareStatement(update)) {
          set.setInt(1, Check.number(next, 1));
          Check.same(set.executeUpdate(), 1);
        }
        connection.commit();
      }
    }
    return null;
  }
}
