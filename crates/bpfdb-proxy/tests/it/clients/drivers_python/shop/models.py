"""Accounts and what was moved between them."""

from django.db import models


class Account(models.Model):
    owner = models.CharField(max_length=40, unique=True)
    balance = models.DecimalField(max_digits=12, decimal_places=2)
    details = models.JSONField(default=dict)


class Transfer(models.Model):
    source = models.ForeignKey(Account, models.CASCADE, related_name="sent")
    target = models.ForeignKey(Account, models.CASCADE, related_name="received")
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    made = models.DateTimeField(auto_now_add=True)
