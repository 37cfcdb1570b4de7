/** Redisson and Spring Session against the server at the port given. */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    OfRedisson.run(port);
    System.out.println("Redisson");
    OfSpring.run(port);
    System.out.println("Spring Session");
    System.exit(0);
  }
}
