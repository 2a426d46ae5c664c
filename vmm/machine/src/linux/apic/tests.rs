//! Tests of the model, by section of the reference.
