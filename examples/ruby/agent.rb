# frozen_string_literal: true

# An agent of AFL Stream in Ruby. It keeps the rules of docs/any-language.md; their numbers stand in the comments.

require "json"
require "socket"
require "time"
require "timeout"
require_relative "events"
require_relative "kafka"

module AFL
  # What a handler returns whose answer comes later.
  LATER = Object.new.freeze

  # What a handler is told beside the payload.
  Context = Struct.new(:agent, :event, :record, :tries, keyword_init: true) do
    # All that an answer needs, in texts and numbers that can be kept anywhere (rule 9).
    def receipt
      { "event_id" => event["id"] }.merge(event.slice("step_id", "workflow_id", "attempt", "answer_token"))
    end

    def update(partial)
      agent.answer(receipt, { partial: partial }, record)
    end
  end

  # A member of the group of a facet, which handles one event at a time.
  class Agent
    def initialize(bootstrap, facet, prefix: ENV.fetch("AFL_PREFIX", "afl."), group: "#{prefix}agent.#{facet}", assignor: "range", tries: 3, pause_s: 0.1, settings: {})
      @facet, @prefix, @group, @assignor, @tries, @pause_s = facet, prefix, group, assignor, tries, pause_s
      @kafka = { "bootstrap.servers" => bootstrap, **settings }
      @name = "#{Socket.gethostname}-#{Process.pid}"
      @producer = Kafka::Producer.new(@kafka)
      @reader = Reader.new { |&found| read_schemas(&found) }
    end

    # Handle events with the block until SIGTERM or SIGINT. What is at work then is still answered and committed.
    def run(&handler)
      @handler = handler
      stopping = false
      %w[TERM INT].each { |signal| trap(signal) { stopping = true } }
      # librdkafka commits what is marked as done: now and then, at a rebalance, and when it is closed.
      consumer = Kafka::Consumer.new(@kafka.merge(
        "group.id" => @group, "partition.assignment.strategy" => @assignor, "enable.auto.offset.store" => false,
        "auto.commit.interval.ms" => 500, "topic.metadata.refresh.interval.ms" => 5_000, "heartbeat.interval.ms" => 1_000
      ))
      consumer.subscribe(["#{@prefix}events.#{@facet}"])
      warn "#{@name} reads #{@prefix}events.#{@facet} in the group #{@group}"
      turn(consumer) until stopping
    ensure
      consumer&.close
    end

    # Answer by a receipt; `says` is one of result:, error: and partial:. Returns when the answer is acknowledged (rule 3).
    def answer(receipt, says, record = nil, tries: 1)
      values = says[:result] || says[:partial]
      Values.check(values, says.key?(:result) ? "result" : "partial") if values
      trace = record ? record.headers.select { |name, _| %w[traceparent tracestate].include?(name) } : [] # rule 13
      headers = [["content-type", "application/json"], *trace, *([["afl_tries", tries.to_s]] if tries > 1)]
      body = { **receipt.compact, "agent" => @name, "group" => @group, **says }
      @producer.write("#{@prefix}control", receipt["workflow_id"], JSON.generate(body, max_nesting: 0), headers)
    rescue Failure, Kafka::Error => error
      raise unless says.key?(:result) && (error.is_a?(Failure) || error.code == Kafka::TOO_LARGE)

      answer(receipt, { error: error_of(error) }, record, tries: tries)
    end

    private

    # One record: answered first, and only then done (rule 2).
    def turn(consumer)
      record = consumer.poll(200) or return
      take(record)
      consumer.done(record)
    rescue Kafka::Error => error
      raise if record || error.code == Kafka::FATAL

      if [Kafka::UNKNOWN_PARTITION, Kafka::NO_PARTITION].include?(error.code)
        return warn "no topic #{@prefix}events.#{@facet} yet: is the facet's name right, and the prefix #{@prefix.inspect}? " \
                    '"afl-stream topics apply PROGRAM.afl" makes topics'
      end
      warn "reading: #{error.message}" # an outage or a rebalance, which librdkafka gets over by itself
    end

    def take(record)
      event = @reader.read(record)
      context = Context.new(agent: self, event: event, record: record, tries: 0)
      says = said_by_handler(event, context)
      answer(context.receipt, says, record, tries: context.tries) if says
    rescue Unreadable => error
      give_up(record, error)
    end

    # A result, an error, or nothing (rules 5 to 7).
    def said_by_handler(event, context)
      raise Failure.new("NoHandler", "this agent is for #{@facet}") unless event["event_type"] == @facet

      result = try_until_deadline(event, context)
      result.equal?(LATER) ? nil : { result: declared(result, event) }
    rescue Late
      warn "#{event['id']}: its deadline has passed"
    rescue StandardError, ScriptError, SystemExit, SystemStackError => error
      { error: error_of(error) }
    end

    # No StandardError: a handler does not catch it by mistake.
    Late = Class.new(Exception)
    private_constant :Late

    # What a handler raises is tried again (rule 6), unless it is a Failure.
    def try_until_deadline(event, context)
      left_s = event["deadline"] && event["deadline"] / 1000.0 - Time.now.to_f
      raise Late if left_s && left_s <= 0

      context.tries += 1
      Timeout.timeout(left_s, Late) { @handler.call(event["payload"], context) }
    rescue Failure
      raise
    rescue StandardError => error
      raise if context.tries >= @tries

      warn "#{event['id']}: try #{context.tries}: #{error.class}: #{error.message}"
      sleep @pause_s * 2**(context.tries - 1)
      retry
    end

    # The result, if the facet declares each of its names (rule 5).
    def declared(result, event)
      raise Failure.new("BadResult", "a Hash was expected, found #{result.class}") unless result.nil? || result.is_a?(Hash)

      names = event["returns"]&.values_at("required", "optional")&.flatten&.compact
      undeclared = (result || {}).keys.map(&:to_s) - (names || (result || {}).keys.map(&:to_s))
      return result || {} if undeclared.empty?

      raise Failure.new("ResultMismatch", "#{@facet} does not declare #{undeclared.join(', ')}; it has #{names.join(', ')}")
    end

    def error_of(error)
      type = error.is_a?(Failure) ? error.type : error.class.name.split("::").last
      type = "BadResult" if error.is_a?(Kafka::Error)
      { type: type, message: AFL.text(error.message)[0, 10_000] }
    end

    # Rule 11.
    def give_up(record, error)
      warn "#{record.topic}[#{record.partition}]@#{record.offset}: #{error.reason}: #{error.message}"
      about = error.reason == "bad_headers" ? {} : @reader.about(record)
      text = AFL.text(error.message)
      letter = { topic: record.topic, partition: record.partition, offset: record.offset, timestamp: record.timestamp, key: record.key,
                 reason: error.reason, error_class: error.class.name, error: text[0, 1_000], attempt: about["attempt"],
                 time: Time.now.utc.iso8601(3), group: @group, agent: @name }
      original = record.headers.reject { |name, _| name.start_with?("afl.dlq.") && name != "afl.dlq.replayed_from" }
      headers = original + letter.compact.map { |name, value| ["afl.dlq.#{name}", value.to_s] }
      @producer.write("#{@prefix}dlq.#{record.topic.delete_prefix(@prefix)}", record.key, record.value, headers)
      step, attempt = about.values_at("subject", "attempt")
      return unless step && attempt && about["id"] == "#{step}##{attempt.to_i}"

      receipt = { "step_id" => step, "workflow_id" => step[/\A[^:]*/], "event_id" => about["id"], "attempt" => attempt.to_i }
      answer(receipt, { error: { type: "UnreadableEvent", message: text[0, 10_000] } }, record)
    end

    def read_schemas(&found)
      consumer = Kafka::Consumer.new(@kafka.merge("group.id" => @group, "enable.auto.commit" => false, "enable.partition.eof" => true))
      consumer.read_whole("#{@prefix}schemas", &found)
    ensure
      consumer&.close
    end
  end
end
