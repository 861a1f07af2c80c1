//! Finds the ports that have the same addresses.

use super::addresses::merge;
use super::{ANY_LISTED, Combination, Layout, MOST_LISTED, SOME, Set, Stage, TooLarge};
use crate::core::hash::hash_of;
use std::mem;

impl Layout {
    pub(super) fn read_ports(&mut self) -> u64 {
        let subsets = &self.facts.subsets;
        if self.next == subsets.len() {
            let units = self.ports.finish_reading();
            self.begin(Stage::Combine);
            return units;
        }
        let before = self.bytes[0];
        let subset = self.next as u32;
        if !self.ports.read(subsets, subset, SOME, &mut self.bytes[0]) {
            self.next += 1;
        }
        1 + (self.bytes[0] - before) as u64 / 16
    }

    /// Finds the combination of subsets of the next ports, since ports that stand in the same subsets have the same
    /// addresses.
    pub(super) fn combine_some(&mut self) -> Result<u64, TooLarge> {
        let mut units = 1;
        for _ in 0..SOME {
            let Some(together) = self.ports.next() else {
                self.begin(Stage::Merge);
                break;
            };
            let subsets: Box<[u32]> = together.subsets().collect();
            let port = together.port;
            units += 1 + subsets.len() as u64 / 8;
            let next = self.combinations.len() as u32;
            let known = &self.combinations;
            let number = self.numbering.number(hash_of(&subsets), next, |number| {
                known[number as usize].subsets == subsets
            });
            if number == next {
                if subsets.len() > 1 {
                    let lengths = subsets.iter().map(|&subset| self.members[subset as usize].len());
                    self.listed += lengths.sum::<usize>();
                }
                self.combinations.push(Combination {
                    subsets,
                    ports: Vec::new(),
                });
            }
            self.combinations[number as usize].ports.extend(port);
        }
        let most = MOST_LISTED * self.addresses + ANY_LISTED;
        if self.listed > most {
            return Err(TooLarge);
        }
        Ok(units)
    }

    /// Lists the addresses of the next combination: an address that one subset calls ready and another not is not ready.
    pub(super) fn merge_one(&mut self) -> u64 {
        // Combinations of one subset come last, and take its list.
        let Some(combination) = self.combinations.get_mut(self.at) else {
            self.at = 0;
            self.next += 1;
            if self.next == 2 {
                (self.members, self.combinations) = Default::default();
                self.begin(Stage::Fill);
            }
            return 1;
        };
        self.at += 1;
        let several = combination.subsets.len() > 1;
        if several == (self.next == 1) {
            return 1;
        }
        let members = if several {
            let lists = combination.subsets.iter();
            let mut all: Vec<u32> = lists
                .flat_map(|&subset| &self.members[subset as usize])
                .copied()
                .collect();
            merge(&mut all);
            all
        } else {
            mem::take(&mut self.members[combination.subsets[0] as usize])
        };
        let units = 1 + members.len() as u64 / 4;
        if members.is_empty() {
            return units;
        }
        let ports = mem::take(&mut combination.ports);
        let (next, known) = (self.sets.len() as u32, &self.sets);
        let number = self.numbering.number(hash_of(&members), next, |number| {
            known[number as usize].members == members
        });
        if number == next {
            self.sets.push(Set {
                members,
                ports,
                lists: [None; 2],
            });
        } else {
            self.sets[number as usize].ports.extend(ports);
        }
        units
    }
}
