//! Taking over a store that somebody else has brought up to date: no write. What upstream's controllers left is
//! taken from the recorded scenarios, after every step of each; what only old clusters hold is made by hand.

mod odd;
mod recorded;
