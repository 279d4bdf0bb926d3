# frozen_string_literal: true

# Events as an agent reads them, and values as it may answer them.

require "json"
require_relative "single_object"

module AFL
  # What a handler raises to fail its step for good, with the type that a program catches.
  class Failure < StandardError
    attr_reader :type

    def initialize(type, message)
      super(message)
      @type = type
    end
  end

  # A record that can never be read; `reason` is a code of dead letters.
  class Unreadable < StandardError
    attr_reader :reason

    def initialize(reason, message)
      super(message)
      @reason = reason
    end
  end

  # A record that waits for another release of this agent, or for a setting.
  class Waits < StandardError; end

  # Bytes as a text that is valid in any case, for people and for headers.
  def self.text(bytes)
    bytes.dup.force_encoding(Encoding::UTF_8).scrub
  end

  # Reads events in each form, and says of what it cannot read whether it ever could be.
  class Reader
    KNOWN = { "workflow_version" => 1, "step_schema_version" => 1, "runtime_version" => 0 }.freeze
    NEEDED = { "id" => String, "workflow_id" => String, "step_id" => String, "event_type" => String, "payload" => Hash,
               "attempt" => Integer, "created_at" => Integer }.freeze
    private_constant :KNOWN, :NEEDED

    # The block calls its own block with each record of the topic `schemas`.
    def initialize(&read_schemas)
      @schemas = SingleObject::Schemas.new(&read_schemas)
    end

    def read(record)
      about = about(record)
      await_upgrade(about)
      event = decode(record.value, about["content-type"])
      await_upgrade(event)
      NEEDED.each do |name, type|
        raise Unreadable.new("missing_field", "an event without #{name}") unless event.key?(name)
        next if event[name].is_a?(type)

        raise Unreadable.new("wrong_type", "#{name}: #{type} expected, found #{event[name].inspect[0, 80]}")
      end
      event
    end

    # What the headers say: members of the header `afl`, or CloudEvents' own headers, which win.
    def about(record)
      headers = record.headers.to_h.compact.transform_values { |value| AFL.text(value) }
      inner = JSON.parse(headers.fetch("afl", "{}"))
      raise Waits, "the header afl has form #{inner['afl']}, this agent reads 1" if inner["afl"].to_i > 1

      versions = KNOWN.keys.zip(inner["versions"].to_s.split("/")).to_h.compact
      own = headers.to_h { |name, value| [name.delete_prefix("ce_").delete_prefix("afl_"), value] }
      { **inner, **versions, **own }
    rescue JSON::ParserError, TypeError, NoMethodError => error
      raise Unreadable.new("bad_headers", "afl: #{error.message}")
    end

    private

    # Rule 12. Only first numbers count.
    def await_upgrade(versions)
      KNOWN.each do |name, known|
        raise Waits, "#{name} #{versions[name]} is newer than #{known}.x: upgrade this agent" if versions[name].to_s.to_i > known
      end
    end

    def decode(value, content_type)
      raise Unreadable.new("null_value", "the record has no value") if value.nil?
      return @schemas.event(value) if value.start_with?(SingleObject::MARK)

      raise Waits, "this event is framed for a schema registry: set wire.facet_events" if value.start_with?("\0") && content_type == "application/avro"
      raise Unreadable.new("bad_magic", value[0, 40].inspect) unless value.start_with?("{") || content_type.to_s.end_with?("json")
      raise Unreadable.new("bad_utf8", value[0, 40].inspect) unless value.force_encoding(Encoding::UTF_8).valid_encoding?

      said = JSON.parse(value, max_nesting: 200)
      said = said["data"] if said.is_a?(Hash) && said.key?("specversion")
      raise Unreadable.new("bad_json", "an object was expected, found #{value[0, 40]}") unless said.is_a?(Hash)
      return said if said.fetch("type", "Event") == "Event"

      raise Unreadable.new("unknown_type", "an Event was expected, found #{said['type'].inspect[0, 40]}")
    rescue JSON::ParserError => error
      raise Unreadable.new("bad_json", AFL.text(error.message))
    end
  end

  # The values that an answer may have.
  module Values
    def self.check(value, place, levels = 100)
      ok = case value
           when nil, true, false then true
           when Integer then value.bit_length < 64
           when Float then value.finite?
           when Symbol then true
           when String then [Encoding::UTF_8, Encoding::US_ASCII].include?(value.encoding) && value.valid_encoding?
           when Array then levels.positive? && value.each_with_index { |item, at| check(item, "#{place}[#{at}]", levels - 1) }
           when Hash then levels.positive? && value.each { |name, item| check_entry(name, item, place, levels) }
           end
      raise Failure.new("ValueRefused", "#{place}: #{value.inspect[0, 80]} is no AFL value") unless ok
    end

    def self.check_entry(name, item, place, levels)
      raise Failure.new("ValueRefused", "#{place}: a key is #{name.inspect[0, 80]}") unless name.is_a?(String) || name.is_a?(Symbol)

      check(item, "#{place}.#{name}", levels - 1)
    end
    private_class_method :check_entry
  end
end
