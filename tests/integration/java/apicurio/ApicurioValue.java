import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.generic.GenericRecord;

/** Values read and written by Apicurio's own classes: of each line, a topic and a value by a tab, the value written again. */
public class ApicurioValue {
    public static void main(String[] args) throws Exception {
        // Confluent's framing is their default: a zero byte, and the id of the content in four bytes.
        Map<String, Object> settings = Map.of("apicurio.registry.url", args[0], "apicurio.registry.auto-register", "true");
        try (var reader = new AvroKafkaDeserializer<GenericRecord>();
                var writer = new AvroKafkaSerializer<GenericRecord>();
                var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            reader.configure(settings, false);
            writer.configure(settings, false);
            for (String line : (Iterable<String>) in.lines()::iterator) {
                String[] words = line.split("\t");
                GenericRecord record = reader.deserialize(words[0], HexFormat.of().parseHex(words[1]));
                System.out.println(HexFormat.of().formatHex(writer.serialize(words[2], record)));
            }
        }
        // Threads of the registry's client would go on.
        System.exit(0);
    }
}
