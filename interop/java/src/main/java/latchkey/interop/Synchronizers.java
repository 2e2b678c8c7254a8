package latchkey.interop;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/**
 * The semaphores and latches of one client. An operation is called after its object (sem.acquire) and takes the name of
 * that, and then its own arguments. Times are milliseconds.
 */
final class Synchronizers {
    private final RedissonClient redisson;

    Synchronizers(RedissonClient redisson) {
        this.redisson = redisson;
    }

    Object run(String operation, String[] args) throws Exception {
        String method = operation.substring(operation.indexOf('.') + 1);
        return switch (operation.substring(0, operation.indexOf('.'))) {
            case "sem" -> semaphore(redisson.getSemaphore(args[0]), method, args);
            case "permit" -> permit(redisson.getPermitExpirableSemaphore(args[0]), method, args);
            case "latch" -> latch(redisson.getCountDownLatch(args[0]), method, args);
            default -> throw new IllegalArgumentException("there is no operation " + operation);
        };
    }

    private static Object semaphore(RSemaphore sem, String method, String[] args) throws Exception {
        int n = args.length > 1 ? Integer.parseInt(args[1]) : 0;
        switch (method) {
            case "acquire" -> sem.acquire(n);
            case "release" -> sem.release(n);
            case "add" -> sem.addPermits(n);
            default -> {
                return switch (method) {
                    case "tryacquire" -> args.length > 2 // N [WAIT]
                            ? sem.tryAcquire(n, Long.parseLong(args[2]), TimeUnit.MILLISECONDS)
                            : sem.tryAcquire(n);
                    case "releaseifexists" -> sem.releaseIfExists(n);
                    case "tryset" -> sem.trySetPermits(n);
                    case "drain" -> sem.drainPermits();
                    case "available" -> sem.availablePermits();
                    case "delete" -> sem.delete();
                    default -> throw new IllegalArgumentException("there is no operation sem." + method);
                };
            }
        }
        return "";
    }

    private static Object permit(RPermitExpirableSemaphore sem, String method, String[] args) throws Exception {
        switch (method) {
            case "release" -> sem.release(args[1]); // ID
            case "releaseall" -> sem.release(List.of(args[1].split(","))); // ID,ID...
            case "set" -> sem.setPermits(Integer.parseInt(args[1]));
            case "add" -> sem.addPermits(Integer.parseInt(args[1]));
            default -> {
                return switch (method) {
                    case "acquire" -> args.length > 1 // [LEASE]
                            ? sem.acquire(Long.parseLong(args[1]), TimeUnit.MILLISECONDS)
                            : sem.acquire();
                    case "acquiremany" -> String.join(",", sem.acquire(Integer.parseInt(args[1]))); // N
                    case "tryacquire" -> args.length > 1 // [WAIT LEASE]
                            ? sem.tryAcquire(Long.parseLong(args[1]), Long.parseLong(args[2]), TimeUnit.MILLISECONDS)
                            : sem.tryAcquire();
                    case "tryrelease" -> sem.tryRelease(args[1]); // ID
                    case "tryreleaseall" -> sem.tryRelease(List.of(args[1].split(","))); // ID,ID...
                    case "tryset" -> sem.trySetPermits(Integer.parseInt(args[1]));
                    case "available" -> sem.availablePermits();
                    case "acquired" -> sem.acquiredPermits();
                    case "permits" -> sem.getPermits();
                    case "updatelease" -> sem.updateLeaseTime(args[1], Long.parseLong(args[2]), TimeUnit.MILLISECONDS);
                    case "leasetime" -> sem.getLeaseTime(args[1]);
                    case "delete" -> sem.delete();
                    default -> throw new IllegalArgumentException("there is no operation permit." + method);
                };
            }
        }
        return "";
    }

    private static Object latch(RCountDownLatch latch, String method, String[] args) throws Exception {
        switch (method) {
            case "down" -> latch.countDown();
            default -> {
                return switch (method) {
                    case "tryset" -> latch.trySetCount(Long.parseLong(args[1]));
                    case "count" -> latch.getCount();
                    case "await" -> latch.await(Long.parseLong(args[1]), TimeUnit.MILLISECONDS); // WAIT
                    case "delete" -> latch.delete();
                    default -> throw new IllegalArgumentException("there is no operation latch." + method);
                };
            }
        }
        return "";
    }
}
