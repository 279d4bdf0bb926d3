package afl.stream;

/** Fails a step with a type that a program may catch. It is not tried again. */
public final class StepFailure extends Exception {
    private static final long serialVersionUID = 1;
    private final String type;

    public StepFailure(String type, String message) {
        super(message);
        this.type = type;
    }

    public String type() {
        return type;
    }
}
