mod cache;
mod codec;
