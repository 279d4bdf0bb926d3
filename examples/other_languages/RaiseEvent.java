import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.avro.message.BinaryMessageEncoder;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Raises the event "approval" for a run, with a schema of its own: any record will do as data.
 *
 * <pre>java -cp 'jars/*' RaiseEvent.java localhost:9092 afl. order-17 approval-1 ann</pre>
 */
public class RaiseEvent {
    /** The name of the outermost record says what it is; other fields than these may be left out. */
    static final String SCHEMA = """
            {"type": "record", "name": "ExternalEvent", "namespace": "afl.v1", "fields": [
              {"name": "workflow_id", "type": "string"},
              {"name": "name", "type": "string"},
              {"name": "id", "type": "string"},
              {"name": "data", "type": {"type": "record", "name": "Approval", "namespace": "shop", "fields": [
                {"name": "by", "type": "string"},
                {"name": "approved", "type": "boolean"}]}}]}""";

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], prefix = args[1], workflowId = args[2], eventId = args[3], by = args[4];
        var schema = new Schema.Parser().parse(SCHEMA);
        var data = new GenericRecordBuilder(schema.getField("data").schema()).set("by", by).set("approved", true).build();
        var encoded = new BinaryMessageEncoder<GenericRecord>(GenericData.get(), schema)
                .encode(new GenericRecordBuilder(schema)
                        .set("workflow_id", workflowId)
                        .set("name", "approval")
                        // The same id again counts once, so an event may be sent until it is acknowledged.
                        .set("id", eventId)
                        .set("data", data)
                        .build());
        var content = new byte[encoded.remaining()];
        encoded.get(content);
        try (var producer = new KafkaProducer<>(
                Map.<String, Object>of("bootstrap.servers", bootstrap, "acks", "all"),
                new ByteArraySerializer(), new ByteArraySerializer())) {
            // A schema is known before its first use: the acknowledgement is waited for.
            producer.send(new ProducerRecord<>(prefix + "schemas", sha256(SCHEMA), utf8(SCHEMA))).get();
            producer.send(new ProducerRecord<>(prefix + "external", utf8(workflowId), content)).get();
        }
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] sha256(String text) throws Exception {
        return utf8(HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(utf8(text))));
    }
}
