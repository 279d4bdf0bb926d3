import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** Whether Avro for Java says that a reader can read what a writer has written: a reader and a writer a line, by a tab. */
public class Resolvable {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line : (Iterable<String>) in.lines()::iterator) {
            String[] texts = line.split("\t");
            Schema reader = new Schema.Parser().parse(texts[0]);
            Schema writer = new Schema.Parser().parse(texts[1]);
            System.out.println(SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType());
        }
    }
}
