package latchkey.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Drives Redisson by commands on stdin, one a line, words between spaces:
 *
 * <pre>ID THREAD CLIENT OPERATION ARGUMENT...</pre>
 *
 * THREAD is a Java thread of that name, made when first named, so that locks have an owner; its commands run one after
 * another, and those of different threads side by side. CLIENT is a Redisson client, made by the operation open. The
 * answer is a line on stdout, when the operation has ended:
 *
 * <pre>ID ok VALUE
 * ID error CLASS MESSAGE CAUSE MESSAGE...</pre>
 *
 * The end of stdin ends the process, without giving anything back.
 */
public final class Main {
    private final PrintStream out;
    private final Map<String, Client> clients = new ConcurrentHashMap<>();

    private Main(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever else is printed is no answer
        new Main(answers).serve(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
        Runtime.getRuntime().halt(0);
    }

    private void serve(BufferedReader in) throws Exception {
        Map<String, ExecutorService> threads = new HashMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            threads.computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor(task -> new Thread(task, name)))
                    .execute(() -> answer(words));
        }
    }

    private void answer(String[] words) {
        String answer;
        try {
            answer = "ok " + run(words[2], words[3], Arrays.copyOfRange(words, 4, words.length));
        } catch (Throwable e) { // a method that this version lacks is an Error
            StringBuilder text = new StringBuilder("error");
            for (Throwable cause = e; cause != null; cause = cause.getCause()) {
                text.append(' ').append(cause.getClass().getSimpleName()).append(' ').append(cause.getMessage());
            }
            answer = text.toString().replaceAll("\\s+", " ");
        }
        synchronized (out) {
            out.println(words[0] + " " + answer);
            out.flush();
        }
    }

    private Object run(String name, String operation, String[] args) throws Exception {
        if (operation.equals("open")) {
            clients.put(name, new Client(args, other -> clients.get(other).redisson()));
            return "";
        }
        Client client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("there is no client " + name);
        }
        return client.run(operation, args);
    }
}
