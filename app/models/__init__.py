"""The models that answer: the offline tutor, scripted models, adapters. Imports ``app.protocol`` only."""
