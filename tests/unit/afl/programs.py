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

#: Every construct beside those of EVERYTHING.
WHOLE_LANGUAGE = """\
/** Who is asked, and how often.
 *  @param none at all */
namespace desk.tools {
    /** Tried again. @param in the text is text.
     * @param times how often
     * @return policy its name
     */
    facet Retry(times: Int = 3) => (policy: String) andThen { yield Retry(policy = "retry-" ++ $.times) }
    facet Limit(minutes: Int = 0)
    schema Note { text: String }
}
namespace desk.work {
    use desk.tools
    event facet Ask(question: String, tone: String = "calm") => (answer: String, sure: Double)
        with Retry(times = 5) as retry with Limit(minutes = 2)
        prompt { model "small"; template "Q: {question}\\n{tone}" system "one word" template "Q: {question}" }
        catch { yield Ask(answer = $.error) }
    implicit usual = Ask(tone = "brisk") with Limit()
    facet Shout(text: String) => (loud: String) script python { result["loud"] = params["text"].upper() + "}" # }
    }
    facet Count(text: String) => (n: Int) script "result[\\"n\\"] = len(params[\\"text\\"])"
    workflow Settle(topic: String) => (answer: String, remarks: [String]) with Retry() as again script {
        result["long"] = len(params["topic"]) > 100
        braces = {"a": '}', "b": {"c": 1}}
    } andThen {
        a = Ask(question = $.topic) with Limit(minutes = 1) as limit with Retry(times = 1) catch when {
            case a.error_type == "Timeout" => { yield Settle(answer = "late") }
            case _ => { b = Shout(text = a.error); yield Settle(answer = b.loud) }
        }
        sys.log(topic = $.topic, answer = a.answer)
        sys.assert(a.sure >= 0.5 || $.long)
        n = Note(text = a.answer)
        c = Shout(text = n.text) andThen when {
            case c.loud contains "!" => { yield Settle(remarks = [c.loud]) }; case _ => { }
        } andThen script { result["remarks"] = [params["text"]] }
        yield Settle(answer = a.answer) with Retry(policy = "none")
    } andThen when {
        case a.sure > 0.7 => { yield Settle(remarks = ["sure"]) }
        case a.sure < 0.2 && !$.long => { sys.log(sure = a.sure) }
        case _ => { }
    } andThen script "result['remarks'] = []" catch when { case _ => { yield Settle(answer = "broken") } }
}
"""
