package afl.stream;

/** Does the work of an event. The result is a map or record of the facet's returns; {@link Agent#DEFERRED}: later. */
@FunctionalInterface
public interface Handler {
    Object handle(Event event) throws Exception;
}
