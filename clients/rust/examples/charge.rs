//! cargo run --example charge localhost:9092
use afl_stream::{Agent, BoxError, Event, Failure, Options};
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

fn main() -> Result<(), BoxError> {
    env_logger::Builder::new().parse_filters("info,rdkafka=off").init();
    let stop = std::sync::Arc::default();
    signal_hook::flag::register(signal_hook::consts::SIGTERM, std::sync::Arc::clone(&stop))?;
    let agent = Agent::new(Options { attempts: 3, ..Options::of(std::env::args().nth(1)) });
    Ok(agent.handle("shop.Charge", charge).run_until(&stop)?)
}
