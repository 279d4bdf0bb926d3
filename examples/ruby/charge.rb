# frozen_string_literal: true

# An agent for `event facet Charge(order: String, amount: Double) => (receipt: String)` of the namespace `shop`.

require_relative "agent"

# What a program catches as `CardDeclined`; a Failure is not tried again.
class CardDeclined < AFL::Failure
  def initialize(message)
    super("CardDeclined", message)
  end
end

broker = ARGV.fetch(0) { ENV.fetch("AFL_KAFKA_BOOTSTRAP", "localhost:9092") }
AFL::Agent.new(broker, "shop.Charge").run do |payload, context|
  raise CardDeclined, "no card takes #{payload['amount']}" if payload["amount"].to_f > 1_000

  # An event may come twice: give its id to the bank, as the key for idempotency.
  warn "charging for #{context.event['id']}"
  { receipt: "r-#{payload['order']}" }
end
