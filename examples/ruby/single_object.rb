# frozen_string_literal: true

# Reads events in Avro's single-object encoding, by the schemas of the topic `schemas`.

require "digest"
require "json"

module AFL
  module SingleObject
    MARK = "\xC3\x01".b.freeze

    # The schemas by their fingerprints, as eight bytes; unknown ones are looked for on the topic.
    class Schemas
      # The block calls its own block with each record of the topic.
      def initialize(&read_topic)
        @read_topic = read_topic
        @known = {}
      end

      # The event of a value, in the form that it has in JSON.
      def event(value)
        fingerprint = value[2, 8]
        learn unless @known.key?(fingerprint)
        schema = @known[fingerprint] or
          raise Unreadable.new("unknown_schema", "no schema of #{fingerprint.unpack1('H*')} on the topic")
        SingleObject.event(schema, value[10..])
      end

      private

      # A record counts only if its key is the SHA-256 of its value; the first of a fingerprint is kept.
      def learn
        @read_topic.call do |record|
          _, fingerprint = record.headers.find { |name, _| name == "afl_fingerprint" }
          next unless record.value && fingerprint && record.key == Digest::SHA256.hexdigest(record.value)

          @known[[fingerprint].pack("H*")] ||= JSON.parse(record.value)
        end
      end
    end

    def self.event(schema, body)
      event = Body.new(body).read(schema)
      returns = { "required" => "_returns_", "optional" => "_may_return_" }.transform_values do |start|
        event.keys.filter_map { |name| Names.plain(name.delete_prefix(start)) if name.start_with?(start) }
      end
      event.delete_if { |name, _| name.start_with?("_") }
      returns.values.all?(&:empty?) ? event : { **event, "returns" => returns }
    end

    # Names as AFL spells them.
    module Names
      def self.plain(name)
        name.gsub(/_x(\h+)_/) { $1.hex.chr(Encoding::UTF_8) }
      end
    end

    # Avro's binary encoding of one value.
    class Body
      def initialize(bytes)
        @bytes, @at, @named = bytes, 0, {}
      end

      def read(schema, space = nil)
        case schema
        when Array then read(schema.fetch(long), space)
        when Hash then complex(schema, space)
        when String then PRIMITIVES.include?(schema) ? send(schema) : read(named(schema, space), space)
        end
      rescue IndexError, RangeError, NoMethodError => error
        raise Unreadable.new("bad_avro", error.message)
      end

      private

      PRIMITIVES = %w[null boolean int long float double bytes string].freeze
      private_constant :PRIMITIVES

      def complex(schema, space)
        case schema["type"]
        when "record" then record(schema, space)
        when "array" then items { read(schema["items"], space) }
        when "map" then items { [string, read(schema["values"], space)] }.to_h
        when "enum" then schema["symbols"].fetch(long)
        when "fixed" then take(schema["size"])
        else read(schema["type"], space)
        end
      end

      def record(schema, space)
        full = schema["name"].include?(".") ? schema["name"] : [schema["namespace"] || space, schema["name"]].compact.join(".")
        space = full[/\A(.*)\.[^.]*\z/, 1]
        @named[full] = schema
        fields = schema["fields"].to_h { |field| [field["name"], read(field["type"], space)] }
        return fields["value"] if full == "afl.v1.Value"

        full.match?(/\Aafl\.(payload|schema)\./) ? values(fields, full.start_with?("afl.payload.")) : fields
      end

      # A payload, or the record of a schema, without its last fields `_extra` and `_absent`.
      def values(fields, is_payload)
        *given, absent = fields.to_a
        extra = is_payload ? given.pop[1] : {}
        given.to_h { |name, value| [Names.plain(name), value] }.except(*absent[1]).merge(extra)
      end

      def named(name, space)
        @named[name] || @named["#{space}.#{name}"] or raise IndexError, "no type #{name}"
      end

      def items
        found = []
        while (count = long) != 0
          long if count.negative? # the size of the block in bytes
          count.abs.times { found << yield }
        end
        found
      end

      def long
        number = shift = 0
        loop do
          byte = take(1).ord
          number |= (byte & 0x7f) << shift
          return (number >> 1) ^ -(number & 1) if byte < 0x80

          shift += 7
        end
      end
      alias int long

      def null; end

      def boolean
        take(1) != "\0".b
      end

      def float
        take(4).unpack1("e")
      end

      def double
        take(8).unpack1("E")
      end

      def bytes
        take(long)
      end

      def string
        bytes.force_encoding(Encoding::UTF_8)
      end

      def take(size)
        raise IndexError, "#{size} bytes expected at #{@at} of #{@bytes.bytesize}" if size.negative? || @at + size > @bytes.bytesize

        @at += size
        @bytes.byteslice(@at - size, size)
      end
    end
  end
end
