package latchkey.interop;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.redisson.api.RLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** The closed loop of bench/cmd/compare: threads that take and give back all the time. */
final class Bench {
    private static final VarHandle WORDS =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
    private static final int INSIDE = 0; // offsets in the page that processes share
    private static final int LAST = 8;

    private final RedissonClient redisson;
    private final Locks locks;

    Bench(RedissonClient redisson, Locks locks) {
        this.redisson = redisson;
        this.locks = locks;
    }

    private interface Step {
        void run() throws InterruptedException;
    }

    /** What one thread has counted. */
    private static final class Tally {
        private final Map<Integer, Long> times = new TreeMap<>();
        private long ops;
        private long changed;
        private long overlaps;
        private long longest;
    }

    /**
     * Arguments: KIND NAME NAMES THREADS LIMIT PROCESS MS PAGE. NAMES is 0 when all share one. Returns operations,
     * changes of the holder, overlaps, CPU time, heap, threads, the longest time, and the number of times in each
     * bucket; times in ns.
     */
    Object run(String[] args) throws Exception {
        String kind = args[0];
        int names = Integer.parseInt(args[2]);
        int threads = Integer.parseInt(args[3]);
        int limit = Integer.parseInt(args[4]);
        int process = Integer.parseInt(args[5]);
        ByteBuffer page = map(args[7]);
        if (kind.equals("sem")) {
            redisson.getSemaphore(args[1]).trySetPermits(limit);
        }
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu = system.getProcessCpuTime();
        long end = System.nanoTime() + Long.parseLong(args[6]) * 1_000_000;
        List<Callable<Tally>> work = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int place = process * threads + i;
            String name = names == 0 ? args[1] : args[1] + ":" + place % names;
            work.add(() -> loop(kind, name, names == 0, limit, place + 1, end, page));
        }
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        Tally sum = new Tally();
        for (Future<Tally> done : pool.invokeAll(work)) {
            Tally one = done.get();
            sum.ops += one.ops;
            sum.changed += one.changed;
            sum.overlaps += one.overlaps;
            sum.longest = Math.max(sum.longest, one.longest);
            one.times.forEach((bucket, count) -> sum.times.merge(bucket, count, Long::sum));
        }
        cpu = system.getProcessCpuTime() - cpu;
        Runtime runtime = Runtime.getRuntime();
        StringBuilder answer = new StringBuilder();
        answer.append(sum.ops).append(' ').append(sum.changed).append(' ').append(sum.overlaps).append(' ').append(cpu)
                .append(' ').append(runtime.totalMemory() - runtime.freeMemory())
                .append(' ').append(ManagementFactory.getThreadMXBean().getThreadCount()).append(' ').append(sum.longest);
        sum.times.forEach((bucket, count) -> answer.append(' ').append(bucket).append(':').append(count));
        pool.shutdown();
        return answer;
    }

    private static ByteBuffer map(String path) throws IOException {
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            return file.map(FileChannel.MapMode.READ_WRITE, 0, 4096);
        }
    }

    private Tally loop(String kind, String name, boolean contended, int limit, long me, long end, ByteBuffer page)
            throws InterruptedException {
        Step take;
        Step give;
        if (kind.equals("sem")) {
            RSemaphore semaphore = redisson.getSemaphore(name);
            take = semaphore::acquire;
            give = semaphore::release;
        } else {
            RLock lock = locks.lock(kind, name);
            take = lock::lock;
            give = lock::unlock;
        }
        Tally tally = new Tally();
        for (long start = System.nanoTime(); start < end; start = System.nanoTime()) {
            take.run();
            long took = System.nanoTime() - start;
            boolean changed = true;
            if (limit > 0) {
                if ((long) WORDS.getAndAdd(page, INSIDE, 1L) >= limit) {
                    tally.overlaps++;
                }
                changed = (long) WORDS.getAndSet(page, LAST, me) != me;
                WORDS.getAndAdd(page, INSIDE, -1L);
            }
            give.run();
            long now = System.nanoTime();
            if (now > end) {
                break;
            }
            took = contended ? took : now - start;
            tally.ops++;
            tally.changed += changed ? 1 : 0;
            tally.longest = Math.max(tally.longest, took);
            tally.times.merge(bucket(took), 1L, Long::sum);
        }
        return tally;
    }

    /** As in bench/cmd/compare/numbers.go. */
    private static int bucket(long ns) {
        if (ns < 64) {
            return (int) ns;
        }
        int shift = 64 - Long.numberOfLeadingZeros(ns) - 6;
        return (shift << 5) + (int) (ns >> shift);
    }
}
