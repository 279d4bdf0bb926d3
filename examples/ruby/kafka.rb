# frozen_string_literal: true

# As much of librdkafka as an agent needs, called through Ruby's own fiddle. With the gem `rdkafka` none of this is needed.

require "fiddle/import"

module Kafka
  # The functions of librdkafka, under their names in C.
  module Lib
    extend Fiddle::Importer
    dlload "librdkafka.so.1"
    extern "void* rd_kafka_conf_new()"
    extern "int rd_kafka_conf_set(void*, char*, char*, char*, size_t)"
    extern "void rd_kafka_conf_set_events(void*, int)"
    extern "void* rd_kafka_new(int, void*, char*, size_t)"
    extern "void rd_kafka_destroy(void*)"
    extern "char* rd_kafka_err2str(int)"
    extern "int rd_kafka_producev(void*, ...)"
    extern "void* rd_kafka_headers_new(size_t)"
    extern "int rd_kafka_header_add(void*, char*, ssize_t, char*, ssize_t)"
    extern "void rd_kafka_headers_destroy(void*)"
    extern "void* rd_kafka_queue_get_main(void*)"
    extern "void* rd_kafka_queue_poll(void*, int)"
    extern "void rd_kafka_queue_destroy(void*)"
    extern "void* rd_kafka_event_message_next(void*)"
    extern "void rd_kafka_event_destroy(void*)"
    extern "void* rd_kafka_topic_new(void*, char*, void*)"
    extern "void rd_kafka_topic_destroy(void*)"
    extern "int rd_kafka_msg_partitioner_murmur2(void*, char*, size_t, int, void*, void*)"
    extern "int rd_kafka_poll_set_consumer(void*)"
    extern "int rd_kafka_subscribe(void*, void*)"
    extern "int rd_kafka_assign(void*, void*)"
    extern "void* rd_kafka_consumer_poll(void*, int)"
    extern "int rd_kafka_consumer_close(void*)"
    extern "int rd_kafka_offsets_store(void*, void*)"
    extern "int rd_kafka_query_watermark_offsets(void*, char*, int, void*, void*, int)"
    extern "void* rd_kafka_topic_partition_list_new(int)"
    extern "void* rd_kafka_topic_partition_list_add(void*, char*, int)"
    extern "int rd_kafka_topic_partition_list_set_offset(void*, char*, int, long long)"
    extern "void rd_kafka_topic_partition_list_destroy(void*)"
    extern "char* rd_kafka_topic_name(void*)"
    extern "long long rd_kafka_message_timestamp(void*, void*)"
    extern "int rd_kafka_message_headers(void*, void*)"
    extern "int rd_kafka_header_get_all(void*, size_t, void*, void*, void*)"
    extern "void rd_kafka_message_destroy(void*)"

    Message = struct(["int err", "void* rkt", "int number", "void* payload", "size_t len", "void* key", "size_t key_len",
                      "long long offset", "void* private"])
  end

  PRODUCER, CONSUMER = 0, 1
  DELIVERIES = 1 # RD_KAFKA_EVENT_DR
  TOO_LARGE = 10
  PARTITION_EOF, UNKNOWN_PARTITION, NO_PARTITION, FATAL = -191, -190, 3, -150
  private_constant :PRODUCER, :CONSUMER, :DELIVERIES

  # What librdkafka or a broker refused, with its number.
  class Error < StandardError
    attr_reader :code

    def initialize(code, text = Lib.rd_kafka_err2str(code).to_s)
      super(text)
      @code = code
    end
  end

  # A record as bytes; headers are pairs, because a name may come twice.
  Record = Struct.new(:topic, :partition, :offset, :timestamp, :key, :value, :headers, keyword_init: true)

  def self.client(kind, settings)
    reason = Fiddle::Pointer.malloc(512, Fiddle::RUBY_FREE)
    conf = Lib.rd_kafka_conf_new
    settings.each do |name, value|
      Lib.rd_kafka_conf_set(conf, name.to_s, value.to_s, reason, 512).zero? or raise Error.new(-186, reason.to_s)
    end
    Lib.rd_kafka_conf_set_events(conf, DELIVERIES) if kind == PRODUCER
    client = Lib.rd_kafka_new(kind, conf, reason, 512)
    client.null? ? raise(Error.new(-196, reason.to_s)) : client
  end

  # Writes records one at a time, and returns when the broker has acknowledged.
  class Producer
    def initialize(settings)
      @client = Kafka.client(PRODUCER, { "acks" => "all", "enable.idempotence" => true, "partitioner" => "murmur2_random",
                                         "linger.ms" => 0 }.merge(settings))
      @deliveries = Lib.rd_kafka_queue_get_main(@client)
      @one_at_a_time = Mutex.new
    end

    def write(topic, key, value, headers)
      @one_at_a_time.synchronize do
        send_copy(topic, key, value, headers)
        report = Lib.rd_kafka_queue_poll(@deliveries, 200) until report && !report.null?
        error = Lib::Message.new(Lib.rd_kafka_event_message_next(report)).err
        Lib.rd_kafka_event_destroy(report)
        raise Error, error unless error.zero?
      end
    end

    def close
      Lib.rd_kafka_queue_destroy(@deliveries)
      Lib.rd_kafka_destroy(@client)
    end

    # The partition of a key, by the partitioner that places the records.
    def partition_of(key, partitions)
      topic = Lib.rd_kafka_topic_new(@client, "any", nil)
      Lib.rd_kafka_msg_partitioner_murmur2(topic, key, key.bytesize, partitions, nil, nil)
    ensure
      Lib.rd_kafka_topic_destroy(topic)
    end

    private

    def send_copy(topic, key, value, headers)
      list = Lib.rd_kafka_headers_new(headers.size)
      headers.each { |name, text| Lib.rd_kafka_header_add(list, name, name.bytesize, text, text ? text.bytesize : 0) }
      # Numbers of rd_kafka_vtype_t: topic, key, value, flags (copy), headers, end.
      error = Lib.rd_kafka_producev(@client, :int, 1, :const_string, topic, :int, 5, :voidp, key, :size_t, key.to_s.bytesize,
                                    :int, 4, :voidp, value, :size_t, value.to_s.bytesize, :int, 7, :int, 2, :int, 10, :voidp, list, :int, 0)
      return if error.zero?

      Lib.rd_kafka_headers_destroy(list)
      raise Error, error
    end
  end

  # A member of a group, or a reader of whole topics.
  class Consumer
    def initialize(settings)
      @client = Kafka.client(CONSUMER, { "auto.offset.reset" => "earliest" }.merge(settings))
      Lib.rd_kafka_poll_set_consumer(@client)
    end

    def subscribe(topics)
      with_list(topics.map { |topic| [topic, -1, nil] }) { |list| check(Lib.rd_kafka_subscribe(@client, list)) }
    end

    # The next record, or nil after the time.
    def poll(wait_ms)
      pointer = Lib.rd_kafka_consumer_poll(@client, wait_ms)
      return if pointer.null?

      message = Lib::Message.new(pointer)
      check(message.err)
      record(pointer, message)
    ensure
      Lib.rd_kafka_message_destroy(pointer) unless pointer.nil? || pointer.null?
    end

    # Have the client commit, in its own time, at a rebalance and at the end, that this record is done. A partition that was
    # lost meanwhile refuses it: its next owner has the record again.
    def done(record)
      with_list([[record.topic, record.partition, record.offset + 1]]) { |list| Lib.rd_kafka_offsets_store(@client, list) }
    end

    # All that is on the topic now.
    def read_whole(topic)
      low, high = Array.new(2) { Fiddle::Pointer.malloc(8, Fiddle::RUBY_FREE) }
      places = (0..).lazy.take_while do |number|
        error = Lib.rd_kafka_query_watermark_offsets(@client, topic, number, low, high, 30_000)
        [UNKNOWN_PARTITION, NO_PARTITION].include?(error) ? false : check(error) || true
      end
      places = places.map { |number| [topic, number, -2] }.to_a
      with_list(places) { |list| check(Lib.rd_kafka_assign(@client, list)) }
      left = places.size
      while left.positive?
        begin
          record = poll(1_000)
          yield record if record
        rescue Error => error
          error.code == PARTITION_EOF ? left -= 1 : raise
        end
      end
    end

    def close
      Lib.rd_kafka_consumer_close(@client)
      Lib.rd_kafka_destroy(@client)
    end

    private

    def check(error)
      raise Error, error unless error.zero?
    end

    def with_list(places)
      list = Lib.rd_kafka_topic_partition_list_new(places.size)
      places.each do |topic, partition, offset|
        Lib.rd_kafka_topic_partition_list_add(list, topic, partition)
        Lib.rd_kafka_topic_partition_list_set_offset(list, topic, partition, offset) if offset
      end
      yield list
    ensure
      Lib.rd_kafka_topic_partition_list_destroy(list)
    end

    def record(pointer, message)
      Record.new(topic: Lib.rd_kafka_topic_name(message.rkt).to_s, partition: message.number, offset: message.offset,
                 timestamp: Lib.rd_kafka_message_timestamp(pointer, nil), key: bytes(message.key, message.key_len),
                 value: bytes(message.payload, message.len), headers: headers(pointer))
    end

    def bytes(pointer, length)
      pointer.null? ? nil : pointer.to_str(length)
    end

    def headers(pointer)
      list, name, value, size = Array.new(4) { Fiddle::Pointer.malloc(8, Fiddle::RUBY_FREE) }
      return [] unless Lib.rd_kafka_message_headers(pointer, list).zero?

      found = []
      while Lib.rd_kafka_header_get_all(list.ptr, found.size, name, value, size).zero?
        found << [name.ptr.to_s, bytes(value.ptr, size.to_str(8).unpack1("Q"))]
      end
      found
    end
  end
end
