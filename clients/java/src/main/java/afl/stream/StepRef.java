package afl.stream;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;

/** What names the step of an answer. The step's id is enough; all of it answers for one attempt, with its token. */
@JsonInclude(JsonInclude.Include.NON_NULL)
public record StepRef(
        @JsonProperty("step_id") String stepId,
        @JsonProperty("workflow_id") String workflowId,
        @JsonProperty("event_id") String eventId,
        @JsonProperty("attempt") Long attempt,
        @JsonProperty("answer_token") String answerToken) {

    public static StepRef of(String stepId) {
        return new StepRef(stepId, workflowOf(stepId), null, null, null);
    }

    static String workflowOf(String stepId) {
        return stepId.substring(0, Math.max(0, stepId.indexOf(':')));
    }
}
