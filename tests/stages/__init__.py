"""A suite a stage: what holds from that stage on."""
