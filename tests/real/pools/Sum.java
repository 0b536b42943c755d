/** Parallel streams, on the common pool of ForkJoin, as large as Java makes it.
 *
 * <p>What it computes and how it is spoken to is said in spin.rs. */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Locale;
import java.util.stream.IntStream;

public final class Sum {
    static final int ITEMS = 8000;
    static final int STEPS = 64;

    static int value(int phase, int item) {
        int x = phase * ITEMS + item + 1;
        for (int step = 0; step < STEPS; step++) {
            x ^= x << 13;
            x ^= x >>> 17;
            x ^= x << 5;
        }
        return x;
    }

    static int work(int phases, boolean isOne) {
        int sum = 0;
        for (int phase = 0; phase < phases; phase++) {
            final int number = phase;
            IntStream range = IntStream.range(0, ITEMS);
            // The common pool has a worker beside the caller at the least: one thread is no pool.
            sum += (isOne ? range : range.parallel()).map(item -> value(number, item)).sum();
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        int phases = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 1000;
        boolean isOne = "1".equals(System.getenv("OMP_NUM_THREADS"));
        // The compiler has compiled it then.
        work(100, isOne);
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        while (lines.readLine() != null) {
            long begin = System.nanoTime();
            int sum = work(phases, isOne);
            double seconds = (System.nanoTime() - begin) / 1e9;
            System.out.printf(
                    Locale.ROOT,
                    "{\"seconds\": %.6f, \"result\": [%d]}%n",
                    seconds,
                    Integer.toUnsignedLong(sum));
            System.out.flush();
        }
    }
}
