package latchkey.interop;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.concurrent.Semaphore;
import java.util.function.Function;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.BaseConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;
import org.redisson.config.SingleServerConfig;

/** One Redisson client, with all that can be done with it. */
final class Client {
    private final RedissonClient redisson;
    private final Locks locks;
    private final Synchronizers synchronizers;
    private final Stress stress;
    private final Bench bench;

    /**
     * Options are key=value: single=HOST:PORT or cluster=HOST:PORT,...; watchdog=MS, fairwait=MS, prefix=TEXT (a
     * NameMapper), strings=true (StringCodec), sharded=AUTO|ON|OFF. The function finds another client.
     */
    Client(String[] options, Function<String, RedissonClient> others) throws Exception {
        redisson = Redisson.create(config(options));
        locks = new Locks(redisson, others);
        synchronizers = new Synchronizers(redisson);
        stress = new Stress(redisson, locks, synchronizers);
        bench = new Bench(redisson, locks);
    }

    RedissonClient redisson() {
        return redisson;
    }

    private static Config config(String[] options) throws Exception {
        Config config = new Config().setThreads(4).setNettyThreads(4);
        String prefix = "";
        BaseConfig<?> servers = null;
        for (String option : options) {
            String value = option.substring(option.indexOf('=') + 1);
            switch (option.substring(0, option.indexOf('='))) {
                case "single" -> servers = single(config, value);
                case "cluster" -> servers = cluster(config, value);
                case "watchdog" -> config.setLockWatchdogTimeout(Long.parseLong(value));
                case "fairwait" -> config.setFairLockWaitTimeout(Long.parseLong(value));
                case "prefix" -> prefix = value;
                case "strings" -> config.setCodec(StringCodec.INSTANCE);
                case "sharded" -> ((ClusterServersConfig) servers)
                        .setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(value));
                default -> throw new IllegalArgumentException("there is no option " + option);
            }
        }
        if (!prefix.isEmpty()) {
            setPrefix(servers, prefix);
        }
        return config;
    }

    private static SingleServerConfig single(Config config, String address) {
        return config.useSingleServer()
                .setAddress("redis://" + address)
                .setDnsMonitoringInterval(-1)
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(32)
                .setSubscriptionConnectionMinimumIdleSize(1);
    }

    private static ClusterServersConfig cluster(Config config, String addresses) {
        ClusterServersConfig servers = config.useClusterServers();
        Arrays.stream(addresses.split(",")).forEach(address -> servers.addNodeAddress("redis://" + address));
        servers.setMasterConnectionMinimumIdleSize(1);
        servers.setMasterConnectionPoolSize(32);
        servers.setSubscriptionConnectionMinimumIdleSize(1);
        return servers;
    }

    /** NameMapper is in another package since 4.x, so it is found by the method that takes one. */
    private static void setPrefix(BaseConfig<?> servers, String prefix) throws Exception {
        Method set = Arrays.stream(servers.getClass().getMethods())
                .filter(method -> method.getName().equals("setNameMapper"))
                .findFirst().orElseThrow();
        Class<?> mapper = set.getParameterTypes()[0];
        set.invoke(servers, Proxy.newProxyInstance(mapper.getClassLoader(), new Class<?>[] {mapper}, (self, method, args) ->
                switch (method.getName()) {
                    case "map" -> prefix + args[0];
                    case "unmap" -> ((String) args[0]).substring(prefix.length());
                    default -> throw new UnsupportedOperationException(method.getName());
                }));
    }

    /** Whether the thread of that name waits for a permit of a semaphore, as those do who wait for a lock's message. */
    private static boolean asleep(String name) {
        return Thread.getAllStackTraces().entrySet().stream()
                .filter(thread -> thread.getKey().getName().equals(name))
                .anyMatch(thread -> thread.getKey().getState() != Thread.State.RUNNABLE
                        && Arrays.stream(thread.getValue()).anyMatch(call -> call.getClassName().equals(Semaphore.class.getName())));
    }

    Object run(String operation, String[] args) throws Exception {
        return switch (operation) {
            case "id" -> redisson.getId();
            case "thread" -> Thread.currentThread().getId();
            case "asleep" -> asleep(args[0]);
            case "shutdown" -> {
                redisson.shutdown();
                yield "";
            }
            case "stress" -> stress.run(args);
            case "bench" -> bench.run(args);
            default -> operation.contains(".") ? synchronizers.run(operation, args) : locks.run(operation, args);
        };
    }
}
