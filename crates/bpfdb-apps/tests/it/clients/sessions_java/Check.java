import java.util.Objects;
import java.util.function.BooleanSupplier;

/** What must be so. */
final class Check {
  private static final long PATIENCE_MILLISECONDS = 60_000;

  private Check() {}

  static void same(Object found, Object wanted) {
    if (!Objects.equals(found, wanted)) {
      throw new AssertionError(found + " instead of " + wanted);
    }
  }

  static void becomes(BooleanSupplier isTrue) {
    long start = System.currentTimeMillis();
    while (!isTrue.getAsBoolean()) {
      if (System.currentTimeMillis() - start > PATIENCE_MILLISECONDS) {
        throw new AssertionError("it does not become true");
      }
      Thread.onSpinWait();
    }
  }
}
