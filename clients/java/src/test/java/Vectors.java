import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Utils;

/** Vectors FILE: whether kafka-clients places keys as the file says; prints how many. */
public class Vectors {
    public static void main(String[] words) throws Exception {
        var vectors = new ObjectMapper().readTree(new File(words[0])).get("vectors");
        for (var vector : vectors) {
            var hash = Utils.murmur2(vector.get("key").textValue().getBytes(StandardCharsets.UTF_8));
            if (hash != vector.get("murmur2").intValue()) throw new AssertionError(vector.toString());
            for (int count : new int[] {6, 12}) {
                if (Utils.toPositive(hash) % count != vector.get("partition_of_" + count).intValue()) {
                    throw new AssertionError(vector.toString());
                }
            }
        }
        System.out.println(vectors.size());
    }
}
