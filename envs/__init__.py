"""The search for a strategy as a Markov decision process; importing it registers Soap-v0 and SoapImprove-v0."""

import gymnasium

gymnasium.register(id="Soap-v0", entry_point="envs.soap:SoapEnv", vector_entry_point="envs.vector:SoapVectorEnv")
gymnasium.register(
    id="SoapImprove-v0",
    entry_point="envs.soap_improve:SoapImproveEnv",
    vector_entry_point="envs.vector:SoapImproveVectorEnv",
)
