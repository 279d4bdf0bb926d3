# frozen_string_literal: true

# Checks where keys go: `ruby vectors.rb partitioner_vectors.json` prints how many vectors hold.

require "json"
require_relative "kafka"

producer = Kafka::Producer.new("log_level" => 0)
vectors = JSON.parse(File.read(ARGV.fetch(0))).fetch("vectors")
puts(vectors.count { |one| [6, 12].all? { |many| producer.partition_of(one["key"], many) == one["partition_of_#{many}"] } })
