import java.io.StringReader;
import java.io.StringWriter;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/** One connection after the other, with everything that a mode of the driver sends. */
final class OfJdbc {
  /** By simple queries; by extended ones, with named statements from a certain use on, or at once. */
  static final String[] MODES = {
    "simple",
    "extended",
    "extended&prepareThreshold=1",
    "extendedForPrepared&prepareThreshold=-1",
    "extendedCacheEverything&prepareThreshold=1&binaryTransfer=true",
    "extended&autosave=always&reWriteBatchedInserts=true"
  };

  private static final int ROUNDS = 30;
  private static final int MANY = 2000;

  private final String url;
  private final String table;

  OfJdbc(String url, String table) {
    this.url = url;
    this.table = table;
  }

  void run() throws Exception {
    try (Connection connection = DriverManager.getConnection(url)) {
      statements(connection);
      transactions(connection);
      batches(connection);
      portions(connection);
      copies(connection);
      cancels(connection);
      Check.execute(connection, "drop table " + table);
      news(connection);
    }
  }

  private void statements(Connection connection) throws SQLException {
    try (PreparedStatement number = connection.prepareStatement("select ?::int * 2");
        PreparedStatement text = connection.prepareStatement("select ?::text, ?::bytea")) {
      for (int round = 0; round < ROUNDS; round++) {
        Check.same(Check.number(number, round), 2 * round);
        text.setString(1, round + " 'quoted' \\ \u00e4");
        text.setBytes(2, new byte[] {0, (byte) round, -1});
        try (ResultSet rows = text.executeQuery()) {
          Check.same(rows.next(), true);
          Check.same(rows.getString(1), round + " 'quoted' \\ \u00e4");
          Check.same(Arrays.equals(rows.getBytes(2), new byte[] {0, (byte) round, -1}), true);
        }
        Check.same(Check.value(connection, "select " + round), String.valueOf(round));
      }
    }
    Check.fails("42P01", () -> Check.execute(connection, "select * from there_is_none"));
    Check.fails("22012", () -> Check.value(connection, "select 1 / (random() * 0)::int"));
    // Several statements of one text, and one that fails among them.
    try (Statement several = connection.createStatement()) {
      Check.same(several.execute("select 1; select 2"), true);
      Check.same(several.getMoreResults(), true);
      several.getResultSet().next();
      Check.same(several.getResultSet().getInt(1), 2);
      Check.fails("42703", () -> several.execute("select 1; select nothing"));
    }
  }

  private void transactions(Connection connection) throws SQLException {
    Check.execute(connection, "drop table if exists " + table);
    Check.execute(connection, "create table " + table + " (a int primary key, b text)");
    connection.setAutoCommit(false);
    Check.execute(connection, "insert into " + table + " values (1, 'one')");
    Savepoint here = connection.setSavepoint("here");
    Check.fails("23505", () -> Check.execute(connection, "insert into " + table + " values (1, '')"));
    connection.rollback(here);
    Check.execute(connection, "insert into " + table + " values (2, 'two')");
    connection.commit();
    Check.execute(connection, "delete from " + table);
    connection.rollback();
    connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
    connection.setReadOnly(true);
    Check.same(Check.value(connection, "show transaction_isolation"), "serializable");
    Check.fails("25006", () -> Check.execute(connection, "delete from " + table));
    connection.rollback();
    connection.setReadOnly(false);
    connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
    connection.setAutoCommit(true);
    Check.same(Check.value(connection, "select count(*) from " + table), "2");
  }

  private void batches(Connection connection) throws SQLException {
    String insert = "insert into " + table + " values (?, ?)";
    try (PreparedStatement batch = connection.prepareStatement(insert)) {
      for (int number = 100; number < 100 + ROUNDS; number++) {
        batch.setInt(1, number);
        batch.setString(2, "b" + number);
        batch.addBatch();
      }
      Check.same(batch.executeBatch().length, ROUNDS);
      connection.setAutoCommit(false);
      for (int number : new int[] {200, 100, 201}) {
        batch.setInt(1, number);
        batch.setString(2, "lost");
        batch.addBatch();
      }
      try {
        batch.executeBatch();
        throw new AssertionError("100 is there already");
      } catch (BatchUpdateException error) {
        Check.same(error.getSQLState(), "23505");
      }
      connection.rollback();
      connection.setAutoCommit(true);
    }
    Check.same(Check.value(connection, "select count(*) from " + table), "" + (2 + ROUNDS));
  }

  /** A portal of which the rows come in portions, within a transaction. */
  private void portions(Connection connection) throws SQLException {
    connection.setAutoCommit(false);
    try (PreparedStatement all = connection.prepareStatement("select generate_series(1, ?::int)")) {
      all.setFetchSize(7);
      all.setInt(1, 200);
      int sum = 0;
      try (ResultSet rows = all.executeQuery()) {
        while (rows.next()) {
          sum += rows.getInt(1);
        }
      }
      Check.same(sum, 200 * 201 / 2);
    }
    connection.commit();
    connection.setAutoCommit(true);
  }

  private void copies(Connection connection) throws Exception {
    CopyManager manager = connection.unwrap(PGConnection.class).getCopyAPI();
    StringBuilder rows = new StringBuilder();
    for (int number = 0; number < MANY; number++) {
      rows.append(1000 + number).append('\t').append("x".repeat(100)).append('\n');
    }
    String in = "copy " + table + " from stdin";
    Check.same(manager.copyIn(in, new StringReader(rows.toString())), (long) MANY);
    StringWriter out = new StringWriter();
    manager.copyOut("copy (select b from " + table + " where a >= 1000) to stdout", out);
    Check.same(out.toString().length(), MANY * 101);
    try {
      manager.copyIn(in, new StringReader("no number\tx\n"));
      throw new AssertionError("it is no number");
    } catch (SQLException error) {
      Check.same(error.getSQLState(), "22P02");
    }
    Check.same(Check.value(connection, "select count(*) from " + table), "" + (2 + ROUNDS + MANY));
  }

  /** By a request of its own, and by a limit of time. */
  private void cancels(Connection connection) throws Exception {
    try (Statement sleep = connection.createStatement()) {
      var sleeps =
          CompletableFuture.runAsync(
              () -> Check.fails("57014", () -> sleep.execute("select pg_sleep(60)")));
      while (true) {
        try {
          sleeps.get(100, TimeUnit.MILLISECONDS);
          break;
        } catch (TimeoutException late) {
          sleep.cancel();
        }
      }
      sleep.setQueryTimeout(1);
      Check.fails("57014", () -> sleep.execute("select pg_sleep(60)"));
    }
    Check.same(Check.value(connection, "select 1"), "1");
  }

  private void news(Connection connection) throws SQLException {
    Check.execute(connection, "listen " + table);
    try (Connection other = DriverManager.getConnection(url)) {
      Check.execute(other, "notify " + table + ", 'news'");
    }
    var heard = connection.unwrap(PGConnection.class).getNotifications(60_000);
    Check.same(heard[0].getParameter(), "news");
    Check.execute(connection, "unlisten *");
  }
}
