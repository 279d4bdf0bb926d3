"""Programs that several tests share."""

BILLING = """\
namespace billing

event facet ProcessPayment(amount: Double, currency: String) => (transaction_id: String, status: String)

workflow Checkout(total: Double) => (receipt: String) andThen {
    payment = ProcessPayment(amount = $.total, currency = "USD")
    yield Checkout(receipt = payment.transaction_id)
}
"""

ROOMS = """\
namespace cold.store {
    event facet Temp(room: Int) => (c: Double)
    workflow Watch(rooms: [Int], max: Double = 4.5) => (hot: [Int]) andThen foreach r in $.rooms {
        t = Temp(room = $.r)
        yield Watch(hot = [$.r])
    }
}
"""

EVERYTHING = """\
/** Everything of the language that there is so far. */
namespace shop.prices {
    schema Money { amount: Double, currency: String; tags: [[String]] }
    schema Empty { }
    facet Rate(percent: Int = -5, note: String = "a\\u00e9\\n", options: Json = #{"k": [1, 2.5e-3, null,], in: true})
    event facet Quote(sku: String, net: Money) => (gross: Double, parts: [Money],)
}
namespace shop.orders {
    use shop.prices
    uses shop.orders;
    workflow Order(skus: [String], net: Money) => (gross: Double, lines: [String]) andThen {
        m = Money(amount = $.net.amount * (2 + 1) % 7, currency = "EUR"); q = Quote(sku = $.skus[0], net = $.net)
        r = Rate(percent = -+3, note = "n=" ++ q.gross / 2 ++ m.currency) andThen {
            s = Rate(note = $.note ++ r.note ++ q.parts[0]["amount"])
        } andThen foreach part in q.parts { ; u = Rate(note = part.currency ++ $.part.currency) }
        ;; yield Order(gross = q.gross - 1)
    } andThen foreach sku in $.skus { yield Order(lines = [sku, $.sku]) }
}
facet Plain() => () andThen { }
"""
