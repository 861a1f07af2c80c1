//! A dry run beside a controller that writes, in one process, on a clock that only goes on when nothing is left to
//! do: what it asks of the server, and when it says what. That it agrees with what upstream had settled on is part
//! of `adoption`.

mod bounded;
mod churn;
mod told;
