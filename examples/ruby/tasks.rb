# frozen_string_literal: true

# The agent of a test, `ruby tasks.rb BOOTSTRAP PREFIX GROUP`: a kind of task for each thing that a handler may do.

require_relative "agent"

bootstrap, prefix, group = ARGV
agent = AFL::Agent.new(bootstrap, "tasks.Do", prefix: prefix, group: group, pause_s: 0.01)

agent.run do |payload, context|
  text = payload["number"].to_s
  case payload["kind"]
  when "flaky"
    raise IOError, "not at once" if context.tries == 1

    text = "try #{context.tries}"
  when "declined"
    raise AFL::Failure.new("CardDeclined", "no funds")
  when "wrong"
    next { txt: text }
  when "later"
    receipt = context.receipt
    context.update({ by: "ruby" })
    Thread.new { agent.answer(receipt, { result: { text: "later", by: "ruby" } }) }
    next AFL::LATER
  end
  { text: text, by: "ruby" }
end
