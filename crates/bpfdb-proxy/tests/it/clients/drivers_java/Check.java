import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Objects;

/** What must be so. */
final class Check {
  private Check() {}

  /** What ends with an error. */
  interface Action {
    void run() throws SQLException;
  }

  static void same(Object found, Object wanted) {
    if (!Objects.equals(found, wanted)) {
      throw new AssertionError(found + " instead of " + wanted);
    }
  }

  static void fails(String state, Action action) {
    try {
      action.run();
    } catch (SQLException error) {
      same(error.getSQLState(), state);
      return;
    }
    throw new AssertionError("no error " + state);
  }

  static void execute(Connection connection, String text) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.execute(text);
    }
  }

  /** The first value of a query without parameters. */
  static String value(Connection connection, String text) throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet rows = statement.executeQuery(text)) {
      same(rows.next(), true);
      return rows.getString(1);
    }
  }

  /** The first value of a prepared statement with one number. */
  static int number(PreparedStatement statement, int parameter) throws SQLException {
    statement.setInt(1, parameter);
    try (ResultSet rows = statement.executeQuery()) {
      same(rows.next(), true);
      return rows.getInt(1);
    }
  }
}
