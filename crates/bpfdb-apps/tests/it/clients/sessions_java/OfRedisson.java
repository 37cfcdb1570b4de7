import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.BatchOptions;
import org.redisson.api.RBatch;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RScoredSortedSet;
import org.redisson.api.RSemaphore;
import org.redisson.api.RTopic;
import org.redisson.api.RTransaction;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.client.codec.IntegerCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.config.Config;

/** Locks, maps, semaphores, queues and transactions of Redisson, in database 11. */
final class OfRedisson {
  private static final int THREADS = 8;
  private static final int ROUNDS = 10;
  private static final long PATIENCE = 60;

  private final RedissonClient client;
  private final ExecutorService pool = Executors.newFixedThreadPool(THREADS);
  private int counter;

  private OfRedisson(int port) {
    Config config = new Config();
    config.setCodec(StringCodec.INSTANCE);
    config.useSingleServer().setAddress("redis://127.0.0.1:" + port).setDatabase(11);
    client = Redisson.create(config);
  }

  static void run(int port) throws Exception {
    OfRedisson all = new OfRedisson(port);
    all.locks();
    all.maps();
    all.semaphores();
    all.queues();
    all.rates();
    all.messages();
    all.transactions();
    all.pool.shutdown();
    all.client.shutdown();
  }

  /** Counting under a lock loses no step, and writers are apart from readers. */
  private void locks() throws Exception {
    RLock lock = client.getLock("lock");
    List<Future<?>> threads = new ArrayList<>();
    for (int i = 0; i < THREADS; i++) {
      threads.add(pool.submit(() -> count(lock)));
    }
    for (Future<?> thread : threads) {
      thread.get(PATIENCE, TimeUnit.SECONDS);
    }
    Check.same(counter, THREADS * ROUNDS);
    RReadWriteLock both = client.getReadWriteLock("both");
    both.readLock().lock();
    Check.same(both.writeLock().tryLock(), false);
    both.readLock().unlock();
    Check.same(both.writeLock().tryLock(), true);
    both.writeLock().unlock();
  }

  private void count(RLock lock) {
    for (int i = 0; i < ROUNDS; i++) {
      lock.lock();
      try {
        int seen = counter;
        Thread.yield();
        counter = seen + 1;
      } finally {
        lock.unlock();
      }
    }
  }

  private void maps() {
    CompositeCodec codec = new CompositeCodec(StringCodec.INSTANCE, IntegerCodec.INSTANCE);
    RMap<String, Integer> map = client.getMap("map", codec);
    map.put("a", 1);
    Check.same(map.addAndGet("a", 2), 3);
    Check.same(map.putIfAbsent("a", 9), 3);
    map.fastPut("b", 5);
    Check.same(map.replace("b", 5, 6), true);
    Check.same(map.readAllMap().get("b"), 6);
    map.remove("a");
    Check.same(map.size(), 1);
    var cache = client.<String, String>getMapCache("cache");
    cache.put("kept", "value", 1, TimeUnit.HOURS);
    cache.put("gone", "value", 1, TimeUnit.MILLISECONDS);
    Check.becomes(() -> cache.get("gone") == null);
    Check.same(cache.get("kept"), "value");
    RScoredSortedSet<String> ranks = client.getScoredSortedSet("ranks");
    ranks.add(1, "a");
    ranks.add(2, "b");
    Check.same(ranks.rank("b"), 1);
    Check.same(ranks.addScore("a", 5), 6.0);
    Check.same(ranks.first(), "b");
  }

  private void semaphores() throws Exception {
    RSemaphore semaphore = client.getSemaphore("semaphore");
    semaphore.trySetPermits(1);
    semaphore.acquire();
    Check.same(semaphore.tryAcquire(), false);
    Future<?> waits =
        pool.submit(
            () -> {
              semaphore.acquire();
              return null;
            });
    semaphore.release();
    waits.get(PATIENCE, TimeUnit.SECONDS);
    Check.same(semaphore.availablePermits(), 0);
  }

  private void queues() throws Exception {
    RBlockingQueue<String> queue = client.getBlockingQueue("queue");
    Future<String> waits = pool.submit(() -> queue.poll(PATIENCE, TimeUnit.SECONDS));
    queue.offer("now");
    Check.same(waits.get(PATIENCE, TimeUnit.SECONDS), "now");
    var delayed = client.getDelayedQueue(queue);
    delayed.offer("later", 200, TimeUnit.MILLISECONDS);
    Check.same(queue.poll(PATIENCE, TimeUnit.SECONDS), "later");
    delayed.destroy();
  }

  private void rates() {
    RRateLimiter limiter = client.getRateLimiter("limiter");
    limiter.trySetRate(RateType.OVERALL, 2, Duration.ofHours(1));
    Check.same(limiter.tryAcquire(), true);
    Check.same(limiter.tryAcquire(), true);
    Check.same(limiter.tryAcquire(), false);
  }

  private void messages() throws Exception {
    RTopic topic = client.getTopic("topic");
    CompletableFuture<String> heard = new CompletableFuture<>();
    topic.addListener(String.class, (channel, message) -> heard.complete(message));
    topic.publish("hello");
    Check.same(heard.get(PATIENCE, TimeUnit.SECONDS), "hello");
  }

  private void transactions() {
    BatchOptions atomic =
        BatchOptions.defaults().executionMode(BatchOptions.ExecutionMode.IN_MEMORY_ATOMIC);
    RBatch batch = client.createBatch(atomic);
    batch.getAtomicLong("number").incrementAndGetAsync();
    batch.getBucket("bucket").setAsync("batch");
    Check.same(batch.execute().getResponses().size(), 2);
    RTransaction transaction = client.createTransaction(TransactionOptions.defaults());
    transaction.getMap("other").put("field", "value");
    transaction.getBucket("bucket").set("transaction");
    transaction.commit();
    Check.same(client.getBucket("bucket").get(), "transaction");
    Check.same(client.getMap("other").get("field"), "value");
  }
}
