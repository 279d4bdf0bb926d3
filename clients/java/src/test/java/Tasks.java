import afl.stream.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;

/** The agent of the tests: Tasks BROKER PREFIX GROUP */
public class Tasks {
    record Params(String kind, long number) {}

    public static void main(String[] words) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", words[0]);
        var later = Executors.newSingleThreadScheduledExecutor();
        var answers = new Answers(settings, words[1], "java-later", words[2]);
        var agent = new Agent(settings, words[1], words[2], 3, Duration.ofMillis(20)).handle("tasks.Do", event -> {
            var given = event.payload(Params.class);
            var answer = new HashMap<String, Object>(Map.of("text", String.valueOf(given.number()), "by", "java"));
            switch (given.kind()) {
                case "wrong" -> answer.put("colour", "red");
                case "declined" -> throw new StepFailure("CardDeclined", "no funds");
                case "flaky" -> {
                    if (event.tries() == 1) throw new IllegalArgumentException("not yet");
                    answer.put("text", "try " + event.tries());
                }
                case "later" -> {
                    answer.put("text", "later");
                    var ref = event.ref();
                    later.schedule(() -> answers.proceed(ref, answer, Map.of()), 50, TimeUnit.MILLISECONDS);
                    return Agent.DEFERRED;
                }
                default -> { }
            }
            return answer;
        });
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            agent.stop();
            try {
                main.join();
            } catch (InterruptedException ending) {
                Thread.currentThread().interrupt();
            }
            Runtime.getRuntime().halt(0);
        }));
        agent.run();
    }
}
