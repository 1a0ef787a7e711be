"""SFT, DPO, PPO, SteerLM and SteerLM 2.0."""
