package afl.stream;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends answers to steps, as JSON on the control topic. Threads may share it. */
public final class Answers implements AutoCloseable {
    static final ObjectMapper JSON =
            new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    private static final List<String> PASSED = List.of("traceparent", "tracestate", "afl_tries");

    private final KafkaProducer<byte[], byte[]> producer;
    private final String prefix;
    private final String agent;
    private final String group;

    /** {@code settings} are kafka-clients' own; bootstrap.servers is needed. {@code group} may be null. */
    public Answers(Map<String, Object> settings, String prefix, String agent, String group) {
        var all = new HashMap<>(settings);
        all.putIfAbsent("acks", "all");
        producer = new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
        this.prefix = prefix;
        this.agent = agent;
        this.group = group;
    }

    public void proceed(StepRef ref, Object result, Map<String, String> headers) {
        send(ref, "result", result, headers);
    }

    public void update(StepRef ref, Object partial, Map<String, String> headers) {
        send(ref, "partial", partial, headers);
    }

    public void fail(StepRef ref, String type, String message, Map<String, String> headers) {
        send(ref, "error", Map.of("type", type, "message", String.valueOf(message)), headers);
    }

    private void send(StepRef ref, String entry, Object value, Map<String, String> headers) {
        ObjectNode answer = JSON.valueToTree(ref);
        var workflow = ref.workflowId() == null ? StepRef.workflowOf(ref.stepId()) : ref.workflowId();
        answer.put("workflow_id", workflow).put("agent", agent).set(entry, JSON.valueToTree(value));
        if (group != null) answer.put("group", group);
        var record = new ProducerRecord<>(prefix + "control", workflow.getBytes(UTF_8), answer.toString().getBytes(UTF_8));
        record.headers().add("content-type", "application/json".getBytes(UTF_8));
        for (var name : PASSED) {
            if (headers.containsKey(name)) record.headers().add(name, headers.get(name).getBytes(UTF_8));
        }
        deliver(record);
    }

    /** Sends a record, and returns when it is acknowledged. */
    void deliver(ProducerRecord<byte[], byte[]> record) {
        try {
            producer.send(record).get();
        } catch (ExecutionException error) {
            throw new IllegalStateException("a record for " + record.topic() + " was not delivered", error.getCause());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void close() {
        producer.close();
    }
}
