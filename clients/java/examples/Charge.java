import afl.stream.*;
import java.time.Duration;
import java.util.Map;

/** java -cp 'jars/*' Charge.java localhost:9092 */
public class Charge {
    record Order(String order) {}

    record Receipt(String receipt) {}

    public static void main(String[] words) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", words[0]);
        var agent = new Agent(settings, "afl.", "afl.agent.shop.Charge", 3, Duration.ofMillis(200));
        agent.handle("shop.Charge", event -> {
            var given = event.payload(Order.class);
            if (given.order().equals("stolen")) throw new StepFailure("CardDeclined", "no funds");
            return new Receipt("java-" + given.order());
        });
        agent.run();
    }
}
