//! What holds of the policies whatever the guests do.
