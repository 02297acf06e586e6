pub mod replacement;
