import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.kafka.common.utils.Utils;

/** What Java's own libraries make of each line of standard input, a line each. */
public class Reckoned {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line : (Iterable<String>) in.lines()::iterator) {
            System.out.println(args[0].equals("partition") ? partition(line, args[1]) : fingerprint(line));
        }
    }

    /** The partition of a key, out of so many. */
    static String partition(String key, String partitions) {
        int hash = Utils.murmur2(key.getBytes(StandardCharsets.UTF_8));
        return Integer.toString(Utils.toPositive(hash) % Integer.parseInt(partitions));
    }

    /** The CRC-64-AVRO fingerprint of a schema, in hex. */
    static String fingerprint(String schema) {
        return "%016x".formatted(SchemaNormalization.parsingFingerprint64(new Schema.Parser().parse(schema)));
    }
}
