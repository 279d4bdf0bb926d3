import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/** Values in the framing of a schema registry: zero, the schema's id in four bytes, and the body by Avro for Java. */
public class RegistryValue {
    static final HttpClient CLIENT = HttpClient.newHttpClient();
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        System.out.println(switch (args[0]) {
            case "read" -> read(args[1], args[2]).toString();
            case "again" -> again(args[1], args[2]);
            default -> write(args[1], args[2], args[3], args[4]);
        });
    }

    /** The value of the record that was read, written by the schema that the value names. */
    static String again(String url, String hex) throws Exception {
        GenericRecord record = read(url, hex);
        return written(Integer.parseInt(hex.substring(2, 10), 16), record.getSchema(), record);
    }

    /** The record of a value; its schema is asked for by its id. */
    static GenericRecord read(String url, String hex) throws Exception {
        ByteBuffer value = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        if (value.get() != 0) {
            throw new IllegalArgumentException("no zero byte at the beginning");
        }
        JsonNode answer = ask(url + "/schemas/ids/" + value.getInt(), null);
        Schema schema = new Schema.Parser().parse(answer.get("schema").asText());
        byte[] body = new byte[value.remaining()];
        value.get(body);
        var decoder = DecoderFactory.get().binaryDecoder(body, null);
        GenericRecord record = new GenericDatumReader<GenericRecord>(schema).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IllegalArgumentException("bytes behind the record");
        }
        return record;
    }

    /** The value of a record that is given in Avro's JSON; its schema is registered under the subject. */
    static String write(String url, String subject, String schemaFile, String json) throws Exception {
        String schemaText = Files.readString(Path.of(schemaFile));
        String body = JSON.createObjectNode().put("schema", schemaText).toString();
        int id = ask(url + "/subjects/" + subject + "/versions", body).get("id").asInt();
        Schema schema = new Schema.Parser().parse(schemaText);
        return written(id, schema, new GenericDatumReader<>(schema).read(null, DecoderFactory.get().jsonDecoder(schema, json)));
    }

    static String written(int id, Schema schema, Object record) throws Exception {
        var out = new ByteArrayOutputStream();
        out.write(ByteBuffer.allocate(5).put((byte) 0).putInt(id).array());
        var encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<>(schema).write(record, encoder);
        encoder.flush();
        return HexFormat.of().formatHex(out.toByteArray());
    }

    static JsonNode ask(String url, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(url)).header("Content-Type", "application/json");
        if (body != null) {
            request.POST(HttpRequest.BodyPublishers.ofString(body));
        }
        HttpResponse<String> answer = CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IllegalStateException(answer.statusCode() + " " + answer.body());
        }
        return JSON.readTree(answer.body());
    }
}
