//! Taking over a store that another controller has brought up to date: no write. The states that upstream's controllers
//! left are taken from the recorded scenarios, after every step of each; what only old clusters hold is made by hand.

mod odd;
mod recorded;
