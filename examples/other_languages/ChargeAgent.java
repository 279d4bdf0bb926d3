import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.avro.message.BinaryMessageDecoder;
import org.apache.avro.message.BinaryMessageEncoder;
import org.apache.avro.message.SchemaStore;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * An agent for shop.Charge(order: String, ...) => (receipt: String) that knows Kafka, Avro and schemas/.
 *
 * <pre>java -cp 'jars/*' ChargeAgent.java localhost:9092 afl. schemas/step_continue.avsc</pre>
 */
public class ChargeAgent {
    /** What is read of an event: by these names, whatever else its writer puts in. */
    static final Schema EVENT = new Schema.Parser().parse("""
            {"type": "record", "name": "Event", "namespace": "afl.v1", "fields": [
              {"name": "id", "type": "string"},
              {"name": "step_id", "type": "string"},
              {"name": "workflow_id", "type": "string"},
              {"name": "payload", "type": {"type": "record", "name": "Charge", "namespace": "afl.payload.shop", "fields": [
                {"name": "order", "type": ["null", "string"]}]}}]}""");

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], prefix = args[1], schemaText = Files.readString(Path.of(args[2]));
        var settings = Map.<String, Object>of(
                "bootstrap.servers", bootstrap,
                "group.id", prefix + "agent.shop.Charge",
                "enable.auto.commit", false,
                "auto.offset.reset", "earliest");
        var bytes = new ByteArrayDeserializer();
        var decoder = new BinaryMessageDecoder<GenericRecord>(
                GenericData.get(), EVENT, new SchemasTopic(bootstrap, prefix + "schemas"));
        var answer = new Answer(schemaText);
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes);
                var producer = new KafkaProducer<>(
                        Map.<String, Object>of("bootstrap.servers", bootstrap, "linger.ms", 1),
                        new ByteArraySerializer(), new ByteArraySerializer())) {
            // A schema is known before its first use: the acknowledgement is waited for.
            producer.send(new ProducerRecord<>(prefix + "schemas", sha256(schemaText), utf8(schemaText))).get();
            consumer.subscribe(List.of(prefix + "events.shop.Charge"));
            while (true) {
                var sent = new ArrayList<Future<RecordMetadata>>();
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    GenericRecord event = decoder.decode(record.value());
                    var receipt = "r-" + ((GenericRecord) event.get("payload")).get("order");
                    sent.add(producer.send(new ProducerRecord<>(
                            prefix + "control",
                            utf8(event.get("workflow_id").toString()),
                            answer.to(event, Map.of("receipt", receipt)))));
                }
                // An offset moves only past events whose answers the broker has.
                for (var acknowledgement : sent) acknowledgement.get();
                if (!sent.isEmpty()) consumer.commitSync();
            }
        }
    }

    /** Writes StepContinue records with the schema as it stands in its file. */
    static final class Answer {
        private final Schema schema;
        private final Schema value;
        private final BinaryMessageEncoder<GenericRecord> encoder;

        Answer(String schemaText) {
            schema = new Schema.Parser().parse(schemaText);
            value = schema.getField("result").schema().getValueType();
            encoder = new BinaryMessageEncoder<>(GenericData.get(), schema);
        }

        byte[] to(GenericRecord event, Map<String, ?> result) throws Exception {
            var entries = new HashMap<String, GenericRecord>();
            result.forEach((name, entry) ->
                    entries.put(name, new GenericRecordBuilder(value).set("value", entry).build()));
            ByteBuffer encoded = encoder.encode(new GenericRecordBuilder(schema)
                    .set("step_id", event.get("step_id"))
                    .set("event_id", event.get("id"))
                    .set("result", entries)
                    .set("agent", "ChargeAgent.java")
                    .build());
            var content = new byte[encoded.remaining()];
            encoded.get(content);
            return content;
        }
    }

    /** The schemas topic: read to its end whenever a fingerprint is unknown. */
    static final class SchemasTopic implements SchemaStore {
        private final SchemaStore.Cache known = new SchemaStore.Cache();
        private final KafkaConsumer<byte[], byte[]> reader;
        private final List<TopicPartition> partitions;

        SchemasTopic(String bootstrap, String topic) {
            var bytes = new ByteArrayDeserializer();
            reader = new KafkaConsumer<>(Map.<String, Object>of("bootstrap.servers", bootstrap), bytes, bytes);
            partitions = reader.partitionsFor(topic).stream()
                    .map(info -> new TopicPartition(topic, info.partition()))
                    .toList();
            reader.assign(partitions);
            reader.seekToBeginning(partitions);
        }

        @Override
        public Schema findByFingerprint(long fingerprint) {
            if (known.findByFingerprint(fingerprint) == null) readToTheEnd();
            return known.findByFingerprint(fingerprint);
        }

        private void readToTheEnd() {
            var ends = reader.endOffsets(partitions);
            while (partitions.stream().anyMatch(where -> reader.position(where) < ends.get(where))) {
                for (var record : reader.poll(Duration.ofSeconds(1))) {
                    if (record.value() != null)
                        known.addSchema(new Schema.Parser().parse(new String(record.value(), StandardCharsets.UTF_8)));
                }
            }
        }
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] sha256(String text) throws Exception {
        return utf8(HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(utf8(text))));
    }
}
