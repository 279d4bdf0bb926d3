package afl.stream;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A request to do the work of a facet for a step. {@code id} is the key for idempotency. */
public record Event(JsonNode fields, int tries, Map<String, String> headers, Answers answers) {
    private static final Map<String, Integer> KNOWN =
            Map.of("workflow_version", 1, "step_schema_version", 1, "runtime_version", 0);

    /** A record that can never be an event; {@code reason} is the code of its dead letter. */
    static final class Unreadable extends Exception {
        private static final long serialVersionUID = 1;
        final String reason;

        Unreadable(String reason, String message) {
            super(message);
            this.reason = reason;
        }
    }

    /** Reads a record's value, on the topic of this facet. IllegalStateException: another setting or release can read it. */
    static JsonNode read(byte[] value, String facet) throws Unreadable {
        if (value == null) throw new Unreadable("null_value", "the record has no value");
        if (value.length == 0) throw new Unreadable("empty_value", "the record's value has no bytes");
        if (value[0] == 0 || (value.length > 1 && value[0] == (byte) 0xc3 && value[1] == 1)) {
            var remedy = "the event is Avro: give the evaluators wire.facet_events = \"%s=json\"; what is Avro already, %s";
            throw new IllegalStateException(remedy.formatted(facet, "an agent in Python answers"));
        }
        JsonNode found;
        try {
            found = Answers.JSON.readTree(value);
        } catch (IOException error) {
            throw new Unreadable("bad_json", String.valueOf(error.getMessage()));
        }
        if (found.has("specversion") && found.path("data").isObject()) found = found.get("data");
        if (!found.isObject()) throw new Unreadable("bad_json", "a record is a JSON object");
        for (var known : KNOWN.entrySet()) {
            var version = found.path(known.getKey()).asText("0");
            if (version.matches("\\d{1,9}\\..*") && Integer.parseInt(version.split("\\.")[0]) > known.getValue()) {
                throw new IllegalStateException(known.getKey() + " is " + version + ": upgrade this client");
            }
        }
        for (var name : List.of("id", "workflow_id", "step_id", "event_type")) {
            if (!found.has(name)) throw new Unreadable("missing_field", "Event without " + name);
            if (!found.get(name).isTextual()) throw new Unreadable("wrong_type", "Event." + name + " is no String");
        }
        if (!found.path("attempt").isIntegralNumber()) throw new Unreadable("wrong_type", "Event.attempt is no Long");
        if (!found.path("payload").isObject()) throw new Unreadable("wrong_type", "Event.payload is no map of parameters");
        return found;
    }

    public String id() {
        return fields.get("id").textValue();
    }

    public String facet() {
        return fields.get("event_type").textValue();
    }

    public String stepId() {
        return fields.get("step_id").textValue();
    }

    public String workflowId() {
        return fields.get("workflow_id").textValue();
    }

    public long attempt() {
        return fields.get("attempt").longValue();
    }

    /** When the answer has to be there, in ms since the epoch. */
    public Optional<Long> deadline() {
        return fields.hasNonNull("deadline") ? Optional.of(fields.get("deadline").longValue()) : Optional.empty();
    }

    /** The parameters. A Long is exact as a {@code longValue()}. */
    public JsonNode payload() {
        return fields.get("payload");
    }

    /** The parameters as a record or class of yours. */
    public <T> T payload(Class<T> type) throws JsonProcessingException {
        return Answers.JSON.treeToValue(payload(), type);
    }

    /** What names the step: keep it to answer later. */
    public StepRef ref() {
        return new StepRef(stepId(), workflowId(), id(), attempt(), fields.path("answer_token").textValue());
    }

    /** Gives the step returns before the handler ends. */
    public void update(Object partial) {
        answers.update(ref(), partial, headers);
    }
}
