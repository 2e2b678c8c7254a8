package latchkey.interop;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.redisson.RedissonMultiLock;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The locks of one client. An operation takes the kind of the lock, its name, and then its own arguments. */
final class Locks {
    private final RedissonClient redisson;
    private final Function<String, RedissonClient> others;
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();

    Locks(RedissonClient redisson, Function<String, RedissonClient> others) {
        this.redisson = redisson;
        this.others = others;
    }

    /** Returns the same object for the same name, as a service that keeps its locks in fields has it. */
    RLock lock(String kind, String name) {
        return locks.computeIfAbsent(kind + " " + name, key -> make(kind, name));
    }

    private RLock make(String kind, String name) {
        return switch (kind) {
            case "rlock" -> redisson.getLock(name);
            case "nonreentrant" -> redisson.getNonReentrantLock(name);
            case "fenced" -> redisson.getFencedLock(name);
            case "spin" -> redisson.getSpinLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "nonreentrantfair" -> redisson.getNonReentrantFairLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            // name is a,b,...: reentrant locks; or client!a,... on other clients
            case "multi" -> new RedissonMultiLock(members(name));
            case "red" -> new RedissonRedLock(members(name));
            // name is group:value,value,...
            case "group" -> redisson.getMultiLock(name.substring(0, name.indexOf(':')),
                    List.of((Object[]) name.substring(name.indexOf(':') + 1).split(",")));
            default -> throw new IllegalArgumentException("there is no kind " + kind);
        };
    }

    private RLock[] members(String names) {
        return Arrays.stream(names.split(",")).map(name -> {
            int end = name.indexOf('!');
            return end < 0 ? redisson.getLock(name) : others.apply(name.substring(0, end)).getLock(name.substring(end + 1));
        }).toArray(RLock[]::new);
    }

    Object run(String operation, String[] args) throws Exception {
        RLock lock = lock(args[0], args[1]);
        switch (operation) {
            case "lock" -> { // [LEASE]
                if (args.length > 2) {
                    lock.lock(Long.parseLong(args[2]), TimeUnit.MILLISECONDS);
                } else {
                    lock.lock();
                }
            }
            case "trylock" -> { // [WAIT [LEASE]]
                return switch (args.length) {
                    case 2 -> lock.tryLock();
                    case 3 -> lock.tryLock(Long.parseLong(args[2]), TimeUnit.MILLISECONDS);
                    default -> lock.tryLock(Long.parseLong(args[2]), Long.parseLong(args[3]), TimeUnit.MILLISECONDS);
                };
            }
            case "unlock" -> lock.unlock();
            case "forceunlock" -> {
                return lock.forceUnlock();
            }
            case "islocked" -> {
                return lock.isLocked();
            }
            case "isheld" -> {
                return lock.isHeldByCurrentThread();
            }
            case "holdcount" -> {
                return lock.getHoldCount();
            }
            case "ttl" -> {
                return lock.remainTimeToLive();
            }
            case "locktoken" -> {
                return ((RFencedLock) lock).lockAndGetToken();
            }
            case "token" -> {
                return ((RFencedLock) lock).getToken();
            }
            default -> throw new IllegalArgumentException("there is no operation " + operation);
        }
        return "";
    }
}
