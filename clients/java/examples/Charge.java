import afl.stream.*;
import java.time.Duration;
import java.util.Map;

/** java -cp 'jars/*' Charge.java localhost:9092 */
public class Charge {
    record Order(String order) {}

    record Receipt(String receipt) {}

    public static void main(String[] words) throws Exception {
        Map<String, Object> settings = words.length > 0 ? Map.of("bootstrap.servers", words[0]) : Map.of();
        var group = Agent.defaultPrefix() + "agent.shop.Charge";
        var agent = new Agent(settings, Agent.defaultPrefix(), group, 3, Duration.ofMillis(200));
        agent.handle("shop.Charge", event -> {
            var given = event.payload(Order.class);
            if (given.order().equals("stolen")) throw new StepFailure("CardDeclined", "no funds");
            return new Receipt("java-" + given.order());
        });
        agent.stopAtShutdown().run();
    }
}
