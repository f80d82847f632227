"""The paper's words and the pricing of strategies; imports none of the other rooms."""
