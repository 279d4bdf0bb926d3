//! cargo run --example charge localhost:9092
use afl_stream::{Agent, BoxError, Error, Event, Failure, Options};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Order {
    order: String,
}

#[derive(Serialize)]
struct Receipt {
    receipt: String,
}

fn charge(_: &Event, given: Order) -> Result<Receipt, BoxError> {
    if given.order == "stolen" {
        return Err(Failure::new("CardDeclined", "no funds").into());
    }
    Ok(Receipt { receipt: format!("rust-{}", given.order) })
}

fn main() -> Result<(), Error> {
    let brokers = std::env::args().nth(1).expect("charge BROKERS");
    Agent::new(Options { brokers, attempts: 3, ..Options::default() }).handle("shop.Charge", charge).run()
}
