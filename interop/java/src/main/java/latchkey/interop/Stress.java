package latchkey.interop;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** What one thread does in the mixed stress: critical sections, with a detector of overlaps in Redis. */
final class Stress {
    /** A reader weighs 1, a writer as much as there may be at all. */
    private static final int ALONE = 1000;

    private final RedissonClient redisson;
    private final Locks locks;
    private final Synchronizers synchronizers;
    private final String enter;
    private final String leave;

    Stress(RedissonClient redisson, Locks locks, Synchronizers synchronizers) throws IOException {
        this.redisson = redisson;
        this.locks = locks;
        this.synchronizers = synchronizers;
        enter = resource("enter.lua");
        leave = resource("leave.lua");
    }

    private static String resource(String name) throws IOException {
        try (InputStream in = Stress.class.getResourceAsStream(name)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    /** Arguments: KIND NAME MS LIMIT DETECTOR. Returns the number of critical sections, at least one. */
    Object run(String[] args) throws Exception {
        String kind = args[0];
        String name = args[1];
        long end = System.currentTimeMillis() + Long.parseLong(args[2]);
        int limit = Integer.parseInt(args[3]);
        String who = redisson.getId() + ":" + Thread.currentThread().getId();
        int sections = 0;
        do {
            String half = kind;
            int weight = 1;
            if (kind.equals("rw")) {
                boolean write = ThreadLocalRandom.current().nextInt(8) == 0;
                half = write ? "write" : "read";
                weight = write ? ALONE : 1;
            }
            String id = acquire(half, name);
            section(enter, args[4], who, weight, limit);
            section(leave, args[4], who, weight, limit);
            release(half, name, id);
            sections++;
        } while (System.currentTimeMillis() < end);
        return sections;
    }

    private String acquire(String kind, String name) throws Exception {
        switch (kind) {
            case "sem" -> synchronizers.run("sem.acquire", new String[] {name, "1"});
            case "permit" -> {
                return (String) synchronizers.run("permit.acquire", new String[] {name, "30000"});
            }
            default -> locks.lock(kind, name).lock();
        }
        return "";
    }

    private void release(String kind, String name, String id) throws Exception {
        switch (kind) {
            case "sem" -> synchronizers.run("sem.release", new String[] {name, "1"});
            case "permit" -> synchronizers.run("permit.release", new String[] {name, id});
            default -> locks.lock(kind, name).unlock();
        }
    }

    private void section(String script, String detector, String who, int weight, int limit) {
        redisson.getScript(StringCodec.INSTANCE).eval(RScript.Mode.READ_WRITE, script, RScript.ReturnType.VALUE,
                List.of(detector, detector + ":marker"), who, String.valueOf(weight), String.valueOf(limit), "java");
    }
}
