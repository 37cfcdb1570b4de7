/** What JDBC does with PostgreSQL, through the proxy or without it: PORT USER NAME, a part of the names of tables. */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws Exception {
    String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/postgres?user=" + arguments[1];
    for (String mode : OfJdbc.MODES) {
      new OfJdbc(url + "&preferQueryMode=" + mode, "drivers_java_" + arguments[2]).run();
    }
    System.out.println("jdbc ok");
    OfHikari.run(url, "drivers_hikari_" + arguments[2]);
    System.out.println("hikari ok");
    System.exit(0);
  }
}
