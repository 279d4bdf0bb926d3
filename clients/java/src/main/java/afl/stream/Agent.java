package afl.stream;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Consumes the topics of facets, runs their handlers, answers, and only then moves its offsets. */
public final class Agent implements AutoCloseable {
    /** What a handler returns when the answer comes later, by {@link Answers} and {@link Event#ref}. */
    public static final Object DEFERRED = new Object();

    private static final System.Logger LOG = System.getLogger("afl.stream");
    private static final Duration LOOK_FOR = Duration.ofSeconds(5);
    private static final Duration LOOK_EVERY = Duration.ofSeconds(15);
    private static final int WORKERS = 8;
    private final Map<String, Handler> handlers = new LinkedHashMap<>();
    private final String prefix;
    private final String name = "java-" + ProcessHandle.current().pid();
    private final String group;
    private final int attempts;
    private final Duration backoff;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Answers answers;
    /** What is answered and not committed yet. Only the thread of {@link #run} uses it. */
    private final Map<TopicPartition, OffsetAndMetadata> answered = new HashMap<>();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final Object bootstrap;
    private boolean hasFoundAll;
    private Instant looksAt = Instant.MIN;

    /**
     * {@code settings} are kafka-clients' own: bootstrap.servers is AFL_KAFKA_BOOTSTRAP by default, or localhost:9092. The
     * group's assignor is cooperative-sticky, as agents in Python have it, unless they say another. A handler is run up to
     * {@code attempts} times.
     */
    public Agent(Map<String, Object> settings, String prefix, String group, int attempts, Duration backoff) {
        this.prefix = prefix;
        this.group = group;
        this.attempts = attempts;
        this.backoff = backoff;
        var all = new HashMap<String, Object>(Map.of(
                "session.timeout.ms", "10000", "heartbeat.interval.ms", "1000", "max.poll.records", "100",
                "allow.auto.create.topics", "false",
                "max.poll.interval.ms", "900000", "partition.assignment.strategy", CooperativeStickyAssignor.class.getName()));
        all.putAll(settings);
        bootstrap = all.computeIfAbsent("bootstrap.servers", name -> fromEnvironment("AFL_KAFKA_BOOTSTRAP", "localhost:9092"));
        all.putAll(Map.of("group.id", group, "enable.auto.commit", "false", "auto.offset.reset", "earliest"));
        consumer = new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        answers = new Answers(Map.of("bootstrap.servers", bootstrap), prefix, name, group);
    }

    /** The prefix of AFL_PREFIX, or {@code afl.}. */
    public static String defaultPrefix() {
        return fromEnvironment("AFL_PREFIX", "afl.");
    }

    private static String fromEnvironment(String name, String otherwise) {
        return Optional.ofNullable(System.getenv(name)).orElse(otherwise);
    }

    public Agent handle(String facet, Handler handler) {
        handlers.put(facet, handler);
        return this;
    }

    /** Works until {@link #stop}. What cannot be read by this release, or not delivered, ends it with an exception. */
    public void run() throws InterruptedException {
        var pool = Executors.newFixedThreadPool(WORKERS);
        try (consumer; answers) {
            if (handlers.isEmpty()) throw new IllegalStateException("an agent needs a handler: agent.handle(\"ns.Facet\", handler)");
            var topics = handlers.keySet().stream().map(facet -> prefix + "events." + facet).toList();
            consumer.subscribe(topics, revoking());
            try {
                while (true) {
                    lookAround(topics);
                    work(pool, consumer.poll(Duration.ofSeconds(1)));
                }
            } catch (WakeupException stopped) {
                commit();
            }
        } catch (InconsistentGroupProtocolException error) {
            var wanted = ": all members need the same partition.assignment.strategy (agent.assignor)";
            throw new IllegalStateException("group " + group + wanted, error);
        } finally {
            pool.shutdownNow();
            ended.countDown();
        }
    }

    /** Ends {@link #run}, from any thread. */
    public void stop() {
        consumer.wakeup();
    }

    /** Ends {@link #run} when the process is told to end, and lets it end: what is handled then is still answered and committed. */
    public Agent stopAtShutdown() {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stop();
            try {
                ended.await(1, TimeUnit.MINUTES);
            } catch (InterruptedException ending) {
                Thread.currentThread().interrupt();
            }
        }));
        return this;
    }

    @Override
    public void close() {
        stop();
    }

    /** Says, until all is found, which brokers do not answer and which topics there are not: kafka-clients waits without a word. */
    private void lookAround(List<String> topics) {
        if (hasFoundAll || Instant.now().isBefore(looksAt)) return;
        looksAt = Instant.now().plus(LOOK_EVERY);
        var names = String.join(", ", topics);
        try {
            var missing = new ArrayList<String>();
            for (var topic : topics) {
                var found = consumer.partitionsFor(topic, LOOK_FOR);
                if (found == null || found.isEmpty()) missing.add(topic);
            }
            hasFoundAll = missing.isEmpty();
            var why = ": is the facet's name right, and the prefix \"" + prefix + "\"? \"afl-stream topics apply PROGRAM.afl\" makes topics";
            if (hasFoundAll) say(System.Logger.Level.INFO, name + " reads " + names + " in the group " + group);
            else say(System.Logger.Level.WARNING, "no topic " + String.join(", ", missing) + " yet" + why);
        } catch (TimeoutException error) {
            say(System.Logger.Level.WARNING, "no answer from the brokers " + bootstrap + " within " + LOOK_FOR.toSeconds() + " s");
        }
    }

    private static void say(System.Logger.Level level, String text) {
        LOG.log(level, () -> text);
    }

    /** Handles the partitions beside each other, and the records of each in order. */
    private void work(ExecutorService pool, ConsumerRecords<byte[], byte[]> records) throws InterruptedException {
        var running = new HashMap<TopicPartition, Future<?>>();
        for (var partition : records.partitions()) {
            running.put(partition, pool.submit(() -> {
                for (var record : records.records(partition)) handle(record);
                return null;
            }));
        }
        IllegalStateException failure = null;
        for (var entry : running.entrySet()) {
            var batch = records.records(entry.getKey());
            try {
                entry.getValue().get();
                answered.put(entry.getKey(), new OffsetAndMetadata(batch.get(batch.size() - 1).offset() + 1));
            } catch (ExecutionException error) {
                failure = new IllegalStateException(entry.getKey() + ": " + error.getCause().getMessage(), error.getCause());
            }
        }
        commit();
        if (failure != null) throw failure;
    }

    /** Commits what is answered. What a rebalance or a broker refuses now is committed after the next poll. */
    private void commit() {
        answered.keySet().retainAll(consumer.assignment());
        if (answered.isEmpty()) return;
        try {
            consumer.commitSync(answered);
            answered.clear();
        } catch (RebalanceInProgressException | RetriableException later) {
            // The group rebalances, which ends within a poll, or the broker is away.
        } catch (CommitFailedException error) {
            // The partitions have another owner, who handles the records again.
            answered.clear();
        }
    }

    private ConsumerRebalanceListener revoking() {
        return new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                commit();
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                answered.keySet().removeAll(partitions);
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
        };
    }

    private void handle(ConsumerRecord<byte[], byte[]> record) throws InterruptedException {
        var headers = new HashMap<String, String>();
        record.headers().forEach(header -> headers.put(header.key(), new String(header.value(), UTF_8)));
        Event event;
        try {
            var facet = record.topic().substring(Math.min(record.topic().length(), (prefix + "events.").length()));
            event = new Event(Event.read(record.value(), facet), 1, headers, answers);
        } catch (Event.Unreadable error) {
            giveUp(record, headers, error);
            return;
        }
        var handler = handlers.get(event.facet());
        if (handler == null) {
            answers.fail(event.ref(), "NoHandler", "no handler for facet " + event.facet(), headers);
            return;
        }
        for (int tries = 1; ; tries++) {
            if (tries > 1) headers.put("afl_tries", String.valueOf(tries));
            try {
                answer(event, handler.handle(new Event(event.fields(), tries, headers, answers)), headers);
                return;
            } catch (StepFailure failure) {
                answers.fail(event.ref(), failure.type(), failure.getMessage(), headers);
                return;
            } catch (InterruptedException ending) {
                throw ending;
            } catch (Exception failure) {
                var wait = backoff.toMillis() << (tries - 1);
                var isLate = event.deadline().filter(at -> System.currentTimeMillis() + wait >= at).isPresent();
                if (tries >= attempts || isLate) {
                    answers.fail(event.ref(), failure.getClass().getSimpleName(), failure.getMessage(), headers);
                    return;
                }
                Thread.sleep(wait);
            }
        }
    }

    private void answer(Event event, Object result, Map<String, String> headers) throws StepFailure {
        if (result == DEFERRED) return;
        var returns = Answers.JSON.valueToTree(result == null ? Map.of() : result);
        if (!returns.isObject()) throw new StepFailure("BadResult", "a result is a map or record of returns");
        var declared = event.fields().path("returns");
        if (declared.isObject()) {
            var names = new LinkedHashSet<String>();
            for (var kind : List.of("required", "optional")) declared.path(kind).forEach(one -> names.add(one.asText()));
            for (var found = returns.fieldNames(); found.hasNext(); ) {
                var one = found.next();
                var said = "the result of " + event.facet() + " has " + one + ", which " + event.facet()
                        + " does not declare; it declares " + String.join(", ", names);
                if (!names.contains(one)) throw new StepFailure("ResultMismatch", said);
            }
        }
        answers.proceed(event.ref(), returns, headers);
    }

    /** Sends what cannot be read to the dead letters, and fails the step that its headers name. */
    private void giveUp(ConsumerRecord<byte[], byte[]> record, Map<String, String> headers, Event.Unreadable error) {
        var topic = record.topic();
        var rest = topic.startsWith(prefix) ? topic.substring(prefix.length()) : topic;
        var letter = new ProducerRecord<>(prefix + "dlq." + rest, null, record.key(), record.value(), record.headers());
        var said = new LinkedHashMap<String, String>();
        said.put("topic", topic);
        said.put("partition", String.valueOf(record.partition()));
        said.put("offset", String.valueOf(record.offset()));
        said.put("timestamp", String.valueOf(record.timestamp()));
        if (record.key() != null) said.put("key", new String(record.key(), UTF_8));
        said.putAll(Map.of("reason", error.reason, "error_class", "Unreadable", "error", error.getMessage(), "group", group));
        said.putAll(Map.of("agent", name, "time", Instant.now().toString()));
        said.forEach((key, value) -> letter.headers().add("afl.dlq." + key, value.getBytes(UTF_8)));
        answers.deliver(letter);
        var named = named(headers);
        if (named != null) answers.fail(named, "UnreadableEvent", error.getMessage(), headers);
    }

    private static StepRef named(Map<String, String> headers) {
        try {
            var all = Answers.JSON.readTree(headers.getOrDefault("afl", "{}"));
            var id = headers.getOrDefault("ce_id", all.path("id").asText());
            var step = headers.getOrDefault("ce_subject", all.path("subject").asText());
            var attempt = headers.getOrDefault("afl_attempt", all.path("attempt").asText());
            if (step.isEmpty() || !attempt.matches("\\d{1,18}") || !id.equals(step + "#" + attempt)) return null;
            return new StepRef(step, StepRef.workflowOf(step), id, Long.parseLong(attempt), null);
        } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
            return null;
        }
    }
}
